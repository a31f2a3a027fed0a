// Linear layers y = x Wᵀ + b: they take nearly all of the time.
//
// The weights are packed once. 64 output columns form a panel; within a panel the weights are stored in
// the order in which they are read, in units of 64 bytes (one register):
//
//     [panel][input group][register 0..3][lane 0..15][input within group]
//
// A group consists of the inputs that fit into four bytes: 1 float32, 2 bf16 or 4 int8. One instruction
// multiplies a register of weights by the same four bytes of x in every lane and adds the products to
// sixteen accumulators, one for each column. A tile is up to six rows by one panel: its 24 registers of
// accumulators stay in the processor, and every weight that is loaded is used for all rows of the tile.
//
// The sum of each column adds the inputs in their order in every tile. So the result of a row is the
// same to the last bit in any batch, next to any other rows, and with any number of threads.

#pragma once

#include <algorithm>
#include <cmath>
#include <utility>

#include "buffers.hpp"
#include "thread_pool.hpp"

enum class Precision { float32 = 0, bf16 = 1, int8 = 2 };

constexpr int REGISTERS = 4, PANEL = REGISTERS * LANES, TILE_ROWS = 6;

// For each precision: the stored type of a weight, and how one register of products is added to the accumulators.

struct Float32 {
    using Weight = float;
    using Sum = Lanes;
    static constexpr int group = 1;
    static Sum add(Sum sum, const char* input, const char* weights) {
        float number;
        std::memcpy(&number, input, sizeof number);
        return sum + number * load(reinterpret_cast<const float*>(weights));
    }
};

struct BFloat16 {  // the upper 16 bits of a float32: the same range, 8 significant bits
    using Weight = uint16_t;
    using Sum = Lanes;
    static constexpr int group = 2;
    static Sum add(Sum sum, const char* input, const char* weights) {
#if defined(__AVX512BF16__)
        int32_t pair;
        std::memcpy(&pair, input, sizeof pair);
        auto both = (__m512bh)_mm512_loadu_si512(weights);
        return (Lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(pair), both);
#else
        uint32_t pair;
        std::memcpy(&pair, input, sizeof pair);
        uint32_t bits[] = {pair & 0xffff0000u, pair << 16};
        float odd, even;
        std::memcpy(&odd, &bits[0], 4);
        std::memcpy(&even, &bits[1], 4);
        IntLanes both;
        std::memcpy(&both, weights, sizeof both);
        return sum + odd * (Lanes)(both & (int32_t)0xffff0000) + even * (Lanes)(both << 16);
#endif
    }
};

struct Int8 {
    using Sum = IntLanes;
#if defined(__AVX512VNNI__)
    // The instruction needs unsigned inputs, so 128 is added to each; `corrections_` subtracts its effect again.
    using Weight = int8_t;
    using Input = uint8_t;
    static constexpr int group = 4, shift = 128;
    static Sum add(Sum sum, const char* input, const char* weights) {
        int32_t four;
        std::memcpy(&four, input, sizeof four);
        return (Sum)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi32(four), _mm512_loadu_si512(weights));
    }
#else
    // Most processors cannot accumulate products of bytes, but all can accumulate products of 16 bits. The resulting
    // integers are the same.
    using Weight = int16_t;
    using Input = int16_t;
    static constexpr int group = 2, shift = 0;
    static Sum add(Sum sum, const char* input, const char* weights) {
        int32_t pair;
        IntLanes both, products;
        std::memcpy(&pair, input, sizeof pair);
        std::memcpy(&both, weights, sizeof both);
#if defined(__AVX2__)
        for (int i = 0; i < 2; i++) {
            auto half = reinterpret_cast<__m256i*>(&products) + i;
            *half = _mm256_madd_epi16(_mm256_set1_epi32(pair), reinterpret_cast<const __m256i*>(&both)[i]);
        }
#else
        products = (both >> 16) * (pair >> 16) + ((both << 16) >> 16) * int32_t(int16_t(pair));
#endif
        return sum + products;
    }
#endif
};

inline uint16_t to_bf16(float number) {  // round to nearest, ties to even
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    if (std::isnan(number)) return 0x7fc0;
    return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// The input rows of a linear layer: float32, rounded to bf16, or int8 with a scale for each row.
struct LinearInput {
    const char* bytes;
    int64_t stride;  // distance between rows, in bytes
    const float* scales;
    LinearInput from_row(int64_t first) const {
        return {bytes + first * stride, stride, scales ? scales + first : nullptr};
    }
};

enum class Activation { none, relu };

class PackedLinear {
public:
    PackedLinear() = default;

    // `weight` is (columns, inputs) in row-major order, as in nn.Linear; `bias` may be null.
    PackedLinear(Precision precision, const float* weight, const float* bias, int64_t columns, int64_t inputs)
        : precision_(precision), columns_(columns), inputs_(inputs) {
        padded_ = round_up(columns, PANEL);
        bias_.resize(padded_);
        if (bias) std::copy(bias, bias + columns, bias_.begin());
        switch (precision) {
            case Precision::float32: pack<Float32>(weight, [](float number, int64_t) { return number; }); break;
            case Precision::bf16: pack<BFloat16>(weight, [](float number, int64_t) { return to_bf16(number); }); break;
            case Precision::int8:
                compute_scales(weight);
                pack<Int8>(weight, [this](float number, int64_t column) {
                    return Int8::Weight(std::nearbyint(number / scales_[column]));
                });
        }
    }

    int64_t inputs() const { return inputs_; }

    // Computes this thread's share of `to = from Wᵀ + b`.
    void apply(LinearInput from, int64_t rows, float* to, int64_t stride, Activation activation, WorkShare share) const {
        // A chunk of rows fits into the L2 cache together with one panel.
        int64_t chunk_rows = std::max<int64_t>(TILE_ROWS * 4, (1 << 18) / (from.stride + 1));
        int64_t chunks = std::max<int64_t>(1, (rows + chunk_rows - 1) / chunk_rows), panels = padded_ / PANEL;
        for (int64_t item = share.first(chunks * panels); item < share.end(chunks * panels); item++) {
            int64_t first = rows * (item / panels) / chunks, height = rows * (item / panels + 1) / chunks - first;
            LinearInput chunk = from.from_row(first);
            float* output = to + first * stride;
            switch (precision_) {
                case Precision::float32: panel<Float32>(chunk, height, output, stride, activation, item % panels); break;
                case Precision::bf16: panel<BFloat16>(chunk, height, output, stride, activation, item % panels); break;
                case Precision::int8: panel<Int8>(chunk, height, output, stride, activation, item % panels); break;
            }
        }
    }

private:
    template <class Format>
    int64_t groups() const { return (inputs_ + Format::group - 1) / Format::group; }

    // A scale for each column: its largest absolute weight becomes 127.
    void compute_scales(const float* weight) {
        scales_.assign(padded_, 1.0f);
        for (int64_t column = 0; column < columns_; column++) {
            float largest = 0;
            for (int64_t i = 0; i < inputs_; i++) largest = std::max(largest, std::abs(weight[column * inputs_ + i]));
            if (largest > 0) scales_[column] = largest / 127;
        }
    }

    template <class Format, class Convert>
    void pack(const float* weight, Convert convert) {
        constexpr int group = Format::group;
        packed_ = AlignedBuffer::zeros(padded_ * groups<Format>() * 4);
        corrections_.assign(padded_, 0);
        auto to = reinterpret_cast<typename Format::Weight*>(packed_.data());
        for (int64_t column = 0; column < columns_; column++) {
            auto panel = to + column / PANEL * groups<Format>() * PANEL * group + column % PANEL * group;
            for (int64_t i = 0; i < inputs_; i++) {
                auto number = convert(weight[column * inputs_ + i], column);
                panel[i / group * PANEL * group + i % group] = number;
                if (precision_ == Precision::int8) corrections_[column] += Int8::shift * int32_t(number);
            }
        }
    }

    // One panel of columns for all rows, in tiles of nearly equal height, at most TILE_ROWS.
    template <class Format>
    void panel(LinearInput from, int64_t rows, float* to, int64_t stride, Activation activation, int64_t number) const {
        int64_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
        for (int64_t i = 0; i < tiles; i++) {
            int64_t first = rows * i / tiles, height = rows * (i + 1) / tiles - first;
            LinearInput rows_of_tile = from.from_row(first);
            float* output = to + first * stride;
            switch (height) {
                case 1: tile<Format, 1>(rows_of_tile, output, stride, activation, number); break;
                case 2: tile<Format, 2>(rows_of_tile, output, stride, activation, number); break;
                case 3: tile<Format, 3>(rows_of_tile, output, stride, activation, number); break;
                case 4: tile<Format, 4>(rows_of_tile, output, stride, activation, number); break;
                case 5: tile<Format, 5>(rows_of_tile, output, stride, activation, number); break;
                case 6: tile<Format, 6>(rows_of_tile, output, stride, activation, number); break;
            }
        }
    }

#if defined(__AVX512F__)
    static constexpr int REGISTERS_AT_ONCE = REGISTERS;  // registers of columns that are accumulated at the same time
#else
    static constexpr int REGISTERS_AT_ONCE = 1;  // registers are smaller and fewer
#endif

    template <class Format, int HEIGHT>
    void tile(LinearInput from, float* to, int64_t stride, Activation activation, int64_t number) const {
        for (int start = 0; start < REGISTERS; start += REGISTERS_AT_ONCE) {
            typename Format::Sum sums[HEIGHT * REGISTERS_AT_ONCE];
            const char* weights = packed_.data() + (number * groups<Format>() * PANEL + start * LANES) * 4;
            accumulate<Format>(from, weights, groups<Format>(), sums,
                               std::make_integer_sequence<int, HEIGHT * REGISTERS_AT_ONCE>());
            for (int i = 0; i < HEIGHT * REGISTERS_AT_ONCE; i++) {
                int64_t row = i / REGISTERS_AT_ONCE, column = number * PANEL + (start + i % REGISTERS_AT_ONCE) * LANES;
                Lanes result = finalize(sums[i], from.scales ? from.scales[row] : 1.0f, column, activation);
                write(result, to + row * stride, column);
            }
        }
    }

    // Sum I belongs to row I / REGISTERS_AT_ONCE and register I % REGISTERS_AT_ONCE. The indices are compile-time
    // constants (a fold expression with `...` is expanded for each of them) and the function does nothing else, so
    // that compilers hold all sums in registers: otherwise it takes twice as long.
    template <class Format, int... I>
    __attribute__((noinline)) static void accumulate(LinearInput from, const char* weights, int64_t groups,
                                                     typename Format::Sum* results, std::integer_sequence<int, I...>) {
        typename Format::Sum sums[] = {(void(I), typename Format::Sum{})...};
        for (const char* input = from.bytes; groups > 0; groups--, input += 4, weights += PANEL * 4)
            ((sums[I] = Format::add(sums[I], input + I / REGISTERS_AT_ONCE * from.stride,
                                    weights + I % REGISTERS_AT_ONCE * LANES * 4)), ...);
        ((results[I] = sums[I]), ...);
    }

    Lanes finalize(Lanes sum, float, int64_t column, Activation activation) const {
        return finalize(sum + load(&bias_[column]), activation);
    }

    Lanes finalize(IntLanes sum, float scale, int64_t column, Activation activation) const {
        IntLanes correction;
        std::memcpy(&correction, &corrections_[column], sizeof correction);
        Lanes value = __builtin_convertvector(sum - correction, Lanes);
        return finalize(value * scale * load(&scales_[column]) + load(&bias_[column]), activation);
    }

    static Lanes finalize(Lanes result, Activation activation) {
        return activation == Activation::relu ? (result < 0 ? Lanes{} : result) : result;
    }

    // The last panel may be wider than the matrix. Its surplus columns are not written: there the next row begins.
    void write(Lanes result, float* row, int64_t column) const {
        if (column + LANES <= columns_) return store(row + column, result);
        if (column < columns_) std::memcpy(row + column, &result, (columns_ - column) * sizeof(float));
    }

    Precision precision_ = Precision::float32;
    int64_t columns_ = 0, inputs_ = 0, padded_ = 0;
    AlignedBuffer packed_;
    std::vector<float> bias_, scales_;
    std::vector<int32_t> corrections_;
};

// Converts one vector to the input of a linear layer in bf16 or int8. The vector is padded with zeros to a multiple of
// sixteen. Returns the scale, which is 1 for bf16.
inline float quantize(Precision precision, const float* vector, int64_t size, char* to) {
    int64_t padded = round_up(size, LANES);
    if (precision == Precision::bf16) {
        for (int64_t i = 0; i < padded; i++) reinterpret_cast<uint16_t*>(to)[i] = to_bf16(vector[i]);
        return 1;
    }
    Lanes max_abs{}, nan_mark{};
    for (int64_t i = 0; i < padded; i += LANES) {
        Lanes numbers = load(vector + i);
        max_abs = maximum(absolute_value(numbers), max_abs);
        nan_mark += numbers * 0.0f;  // 0, but NaN for inf and NaN: without this mark a NaN would become an ordinary int8
    }
    float scale = horizontal_max(max_abs) / 127;
    if (!(scale > 0)) scale = 1;
    for (int64_t i = 0; i < padded; i += LANES) {
        const Lanes magic = broadcast(12582912.0f);  // adding it rounds to integers, ties to even, as in `exponential`
        Lanes rounded = (load(vector + i) / scale + magic) - magic;
        IntLanes numbers = __builtin_convertvector(rounded, IntLanes) + Int8::shift;
        auto bytes = reinterpret_cast<Int8::Input*>(to) + i;
        for (int lane = 0; lane < LANES; lane++) bytes[lane] = Int8::Input(numbers[lane]);
    }
    return scale + horizontal_sum(nan_mark);
}
