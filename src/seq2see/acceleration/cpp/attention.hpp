// Scaled dot-product attention of one query of one head (Vaswani et al. 2017, eq. 1).
//
// The cached tokens of a row, the source, and the tokens of an encoder have one form here: a list of
// addresses, and the offsets from each address to its key and to its value.

#pragma once

#include <algorithm>
#include <limits>

#include "lanes.hpp"

struct KeyValueView {
    const float* const* tokens;
    int64_t count, key, value;  // number of tokens; offsets of this head's key and value from each address
};

// softmax(q Kᵀ · scale) V for one query whose head occupies HEAD_REGISTERS registers; `weights` is a scratch buffer.
template <int HEAD_REGISTERS>
inline void attend_registers(const float* query, float scale, const KeyValueView& kv, float* weights, float* to) {
    Lanes maximum_score = broadcast(-std::numeric_limits<float>::infinity()), total{};
    for (int64_t first = 0; first < kv.count; first += LANES) {
        Lanes products[LANES];
        for (int64_t i = 0; i < LANES; i++) {
            // After the last token its key is repeated: this cannot change the maximum.
            const float* key = kv.tokens[std::min(first + i, kv.count - 1)] + kv.key;
            products[i] = load(query) * load(key);
            for (int offset = LANES; offset < HEAD_REGISTERS * LANES; offset += LANES)
                products[i] += load(query + offset) * load(key + offset);
        }
        Lanes scores = horizontal_sums(products) * scale;
        maximum_score = maximum(scores, maximum_score);
        store(weights + first, scores);
    }
    float largest = horizontal_max(maximum_score);
    for (int64_t first = 0; first < kv.count; first += LANES) {
        Lanes exponentials = keep_first(exponential(load(weights + first) - largest), kv.count - first);
        total += exponentials;
        store(weights + first, exponentials);
    }
    Lanes sums[HEAD_REGISTERS] = {};
    for (int64_t i = 0; i < kv.count; i++)
        for (int r = 0; r < HEAD_REGISTERS; r++)
            sums[r] += weights[i] * load(kv.tokens[i] + kv.value + r * LANES);
    float inverse_total = kv.count ? 1 / horizontal_sum(total) : 0;  // without tokens the result is 0, not NaN
    for (int r = 0; r < HEAD_REGISTERS; r++) store(to + r * LANES, sums[r] * inverse_total);
}

// For heads of `size` numbers, a multiple of 16 up to 128. Loops of constant length are several times as fast.
inline void attend(const float* query, int64_t size, float scale, const KeyValueView& kv, float* weights, float* to) {
    switch (size / LANES) {
        case 1: return attend_registers<1>(query, scale, kv, weights, to);
        case 2: return attend_registers<2>(query, scale, kv, weights, to);
        case 3: return attend_registers<3>(query, scale, kv, weights, to);
        case 4: return attend_registers<4>(query, scale, kv, weights, to);
        case 5: return attend_registers<5>(query, scale, kv, weights, to);
        case 6: return attend_registers<6>(query, scale, kv, weights, to);
        case 7: return attend_registers<7>(query, scale, kv, weights, to);
        case 8: return attend_registers<8>(query, scale, kv, weights, to);
    }
}
