// Looking: one head's query against the keys of any list of tokens (Vaswani et al. 2017, eq. 1).
//
// The past of a row, the source, and the tokens of an encoder all look the same from here: a list of
// places in memory, and how far behind each place its key and its value lie.

#pragma once

#include <algorithm>
#include <limits>

#include "lanes.hpp"

struct KeyValueView {
    const float* const* tokens;
    int64_t count, key, value;  // how many places; where key and value of this head lie behind each
};

// softmax(q Kᵀ · sharpness) V for one query whose head has PARTS registers; `weights` is working space.
template <int HEAD_REGISTERS>
inline void attend_parts(const float* query, float scale, const KeyValueView& kv, float* weights, float* to) {
    Lanes maximum_score = broadcast(-std::numeric_limits<float>::infinity()), total{};
    for (int64_t first = 0; first < kv.count; first += LANES) {
        Lanes products[LANES];
        for (int64_t i = 0; i < LANES; i++) {
            // Beyond the last place its key is taken again: it cannot change the maximum.
            const float* key = kv.tokens[std::min(first + i, kv.count - 1)] + kv.key;
            products[i] = load(query) * load(key);
            for (int part = LANES; part < HEAD_REGISTERS * LANES; part += LANES)
                products[i] += load(query + part) * load(key + part);
        }
        Lanes scores = horizontal_sums(products) * scale;
        maximum_score = maximum(scores, maximum_score);
        store(weights + first, scores);
    }
    float largest = horizontal_max(maximum_score);
    for (int64_t first = 0; first < kv.count; first += LANES) {
        Lanes powers = keep_first(exponential(load(weights + first) - largest), kv.count - first);
        total += powers;
        store(weights + first, powers);
    }
    Lanes sums[HEAD_REGISTERS] = {};
    for (int64_t i = 0; i < kv.count; i++)
        for (int part = 0; part < HEAD_REGISTERS; part++)
            sums[part] += weights[i] * load(kv.tokens[i] + kv.value + part * LANES);
    float inverse_total = kv.count ? 1 / horizontal_sum(total) : 0;  // nothing to look at: nothing found, and no NaN
    for (int part = 0; part < HEAD_REGISTERS; part++) store(to + part * LANES, sums[part] * inverse_total);
}

// For heads of `size` numbers, a multiple of 16 up to 128; loops of known length are several times as fast.
inline void attend(const float* query, int64_t size, float scale, const KeyValueView& kv, float* weights, float* to) {
    switch (size / LANES) {
        case 1: return attend_parts<1>(query, scale, kv, weights, to);
        case 2: return attend_parts<2>(query, scale, kv, weights, to);
        case 3: return attend_parts<3>(query, scale, kv, weights, to);
        case 4: return attend_parts<4>(query, scale, kv, weights, to);
        case 5: return attend_parts<5>(query, scale, kv, weights, to);
        case 6: return attend_parts<6>(query, scale, kv, weights, to);
        case 7: return attend_parts<7>(query, scale, kv, weights, to);
        case 8: return attend_parts<8>(query, scale, kv, weights, to);
    }
}
