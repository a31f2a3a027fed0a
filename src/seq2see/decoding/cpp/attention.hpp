// Looking: one head's query against the keys of any list of tokens (Vaswani et al. 2017, eq. 1).
//
// The past of a row, the source, and the tokens of an encoder all look the same from here: a list of
// places in memory, and how far behind each place its key and its value lie.

#pragma once

#include <algorithm>
#include <limits>

#include "lanes.hpp"

struct Looked {
    const float* const* places;
    int64_t count, key, value;  // how many places; where key and value of this head lie behind each
};

// softmax(q Kᵀ · sharpness) V for one query whose head has PARTS registers; `weights` is working space.
template <int PARTS>
inline void attend_parts(const float* query, float sharpness, const Looked& at, float* weights, float* to) {
    Lanes most = spread(-std::numeric_limits<float>::infinity()), total{};
    for (int64_t first = 0; first < at.count; first += LANES) {
        Lanes products[LANES];
        for (int64_t i = 0; i < LANES; i++) {
            // Beyond the last place its key is taken again: it cannot change the maximum.
            const float* key = at.places[std::min(first + i, at.count - 1)] + at.key;
            products[i] = load(query) * load(key);
            for (int part = LANES; part < PARTS * LANES; part += LANES)
                products[i] += load(query + part) * load(key + part);
        }
        Lanes scores = sums_of(products) * sharpness;
        most = larger(scores, most);
        store(weights + first, scores);
    }
    float largest = largest_of(most);
    for (int64_t first = 0; first < at.count; first += LANES) {
        Lanes powers = first_of(exponential(load(weights + first) - largest), at.count - first);
        total += powers;
        store(weights + first, powers);
    }
    Lanes sums[PARTS] = {};
    for (int64_t i = 0; i < at.count; i++)
        for (int part = 0; part < PARTS; part++)
            sums[part] += weights[i] * load(at.places[i] + at.value + part * LANES);
    float share = at.count ? 1 / sum_of(total) : 0;  // nothing to look at: nothing found, and no NaN
    for (int part = 0; part < PARTS; part++) store(to + part * LANES, sums[part] * share);
}

// For heads of `size` numbers, a multiple of 16 up to 128; loops of known length are several times as fast.
inline void attend(const float* query, int64_t size, float sharpness, const Looked& at, float* weights, float* to) {
    switch (size / LANES) {
        case 1: return attend_parts<1>(query, sharpness, at, weights, to);
        case 2: return attend_parts<2>(query, sharpness, at, weights, to);
        case 3: return attend_parts<3>(query, sharpness, at, weights, to);
        case 4: return attend_parts<4>(query, sharpness, at, weights, to);
        case 5: return attend_parts<5>(query, sharpness, at, weights, to);
        case 6: return attend_parts<6>(query, sharpness, at, weights, to);
        case 7: return attend_parts<7>(query, sharpness, at, weights, to);
        case 8: return attend_parts<8>(query, sharpness, at, weights, to);
    }
}
