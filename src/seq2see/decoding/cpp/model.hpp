// What a Transformer consists of, as plain numbers: norms, products and tables, in the order they are used.

#pragma once

#include <memory>

#include "products.hpp"

// Reads the numbers and the tables that describe a model, in the order in which they were listed.
struct Reader {
    const int64_t* numbers;
    const float* const* tables;
    int64_t number() { return *numbers++; }
    const float* table() { return *tables++; }
};

// Layer norm (Ba et al. 2016, eq. 4), or root-mean-square norm (Zhang & Sennrich 2019), which takes no mean away.
class Norm {
public:
    Norm() = default;
    Norm(Reader& reader, int64_t width, bool centred, float epsilon)
        : width_(width), centred_(centred), epsilon_(epsilon) {
        int64_t padded = round_up(width, LANES);
        weight_.resize(padded);
        bias_.resize(padded);
        inside_.resize(padded);
        const float *weight = reader.table(), *bias = reader.table();
        std::copy(weight, weight + width, weight_.begin());
        if (bias) std::copy(bias, bias + width, bias_.begin());
        std::fill(inside_.begin(), inside_.begin() + width, 1.0f);
    }

    void apply(const float* from, float* to) const {
        int64_t padded = weight_.size();
        float mean = 0;
        if (centred_) {
            Lanes sum{};
            for (int64_t i = 0; i < padded; i += LANES) sum += load(from + i);
            mean = sum_of(sum) / width_;
        }
        Lanes squares{};
        for (int64_t i = 0; i < padded; i += LANES) {
            Lanes distance = (load(from + i) - mean) * load(&inside_[i]);  // the padding is no part of the vector
            squares += distance * distance;
        }
        float steady = 1 / std::sqrt(sum_of(squares) / width_ + epsilon_);
        for (int64_t i = 0; i < padded; i += LANES)
            store(to + i, (load(from + i) - mean) * steady * load(&weight_[i]) + load(&bias_[i]));
    }

private:
    int64_t width_ = 0;
    bool centred_ = true;
    float epsilon_ = 0;
    std::vector<float> weight_, bias_, inside_;
};

// One block of the encoder (look, think) or of the decoder (look back, look across, think).
struct Block {
    Norm around_look, around_across, around_think;
    Product queries_keys_values, look_output;
    Product queries, keys_values, across_output;
    Product widen, narrow;
};

// The encoder or the decoder: its tokens' vectors, its blocks, and the norm it ends with.
struct Half {
    int64_t vocabulary, width, depth, heads, size, hidden;
    int64_t head_room;  // numbers that a head occupies: its size, rounded up to whole registers
    int64_t inner;      // what all heads occupy side by side
    bool norm_first;    // x + f(norm(x)) (Xiong et al. 2020), or norm(x + f(x)) (Vaswani et al. 2017)
    const float* table;
    float scale;  // of the tokens' vectors: √width
    std::vector<Block> blocks;
    Norm ending;

    Half(Reader& reader, Precision precision, int64_t memory_width) {
        vocabulary = reader.number(), width = reader.number(), depth = reader.number();
        heads = reader.number(), size = reader.number(), hidden = reader.number();
        norm_first = reader.number();
        bool centred = reader.number();
        head_room = round_up(size, LANES), inner = heads * head_room;
        table = reader.table();
        const float* sizes = reader.table();
        scale = sizes[0];
        float epsilon = sizes[1];
        auto norm = [&] { return Norm(reader, width, centred, epsilon); };
        auto product = [&](int64_t columns, int64_t inputs) {
            const float *weight = reader.table(), *bias = reader.table();
            return Product(precision, weight, bias, columns, inputs);
        };
        for (int64_t i = 0; i < depth; i++) {
            Block block;
            block.around_look = norm();
            block.queries_keys_values = product(3 * inner, width);
            block.look_output = product(width, inner);
            if (memory_width) {
                block.around_across = norm();
                block.queries = product(inner, width);
                block.keys_values = product(2 * inner, memory_width);
                block.across_output = product(width, inner);
            }
            block.around_think = norm();
            block.widen = product(hidden, width);
            block.narrow = product(width, hidden);
            blocks.push_back(std::move(block));
        }
        if (norm_first) ending = norm();
    }
};

// What one thread works with for itself, or all threads together.
struct Workplace {
    Table stream, normal, encoded;
    std::vector<float> scales, weights;
};

// The working space of a pass over some rows.
struct Buffers {
    std::vector<Workplace> places;
    Table projected, found, answer, hidden;

    void fit(const Half& half, int64_t rows, int64_t longest, int threads) {
        places.resize(threads);
        for (auto& place : places) {
            place.stream.fit(rows, half.width);
            place.normal.fit(rows, half.width);
            place.encoded.fit(rows, std::max({half.hidden, half.inner, half.width}));
            place.scales.resize(std::max<size_t>(place.scales.size(), rows));
            place.weights.resize(std::max<size_t>(place.weights.size(), round_up(longest, LANES)));
        }
        projected.fit(rows, 3 * half.inner);
        found.fit(rows, half.inner);
        answer.fit(rows, half.width);
        hidden.fit(rows, half.hidden);
    }
};

struct Model {
    Precision precision;
    Half encoder, decoder;
    Product head;
    Team team;
    std::mutex working;  // a team does one thing at a time
    Spares<Memory> chunks{32};                       // of finished searches, at most 128 MB
    Spares<Buffers> reading_space{2}, writing_space{2};
    std::atomic<int> holders{1};  // its owner, and every search that still reads its weights

    Model(Reader reader, int threads)
        : precision(Precision(reader.number())), encoder(reader, precision, 0),
          decoder(reader, precision, encoder.width), team(threads) {
        const float *weight = reader.table(), *bias = reader.table();
        head = Product(precision, weight, bias, decoder.vocabulary, decoder.width);
    }

    // Numbers that one token's keys and values occupy in one block, head after head: key, value. The odd register
    // at the end keeps tokens from falling on the same lines of the processor's caches.
    int64_t slot() const { return 2 * decoder.inner + LANES; }
};
