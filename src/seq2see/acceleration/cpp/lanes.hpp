// SIMD: sixteen numbers at a time. No other file depends on how a vector register is written in C++.
//
// `Lanes` is a vector type of the compiler (the same in GCC and Clang): one register on a machine with
// AVX-512, two with AVX2, four with NEON. This file names no instruction.

#pragma once

#include <cstdint>
#include <cstring>

constexpr int LANES = 16;

typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t IntLanes __attribute__((vector_size(64)));

inline Lanes load(const float* from) {
    Lanes lanes;
    std::memcpy(&lanes, from, sizeof lanes);
    return lanes;
}

inline void store(float* to, Lanes lanes) { std::memcpy(to, &lanes, sizeof lanes); }

inline Lanes broadcast(float number) { return Lanes{} + number; }

inline Lanes maximum(Lanes left, Lanes right) { return left > right ? left : right; }

inline Lanes absolute_value(Lanes lanes) { return lanes < 0 ? -lanes : lanes; }

// Select lanes of two concatenated vectors by their indices.
#if defined(__clang__)
#define SHUFFLE(left, right, ...) __builtin_shufflevector(left, right, __VA_ARGS__)
#else
#define SHUFFLE(left, right, ...) __builtin_shuffle(left, right, IntLanes{__VA_ARGS__})
#endif

// Sums of adjacent lanes: lane i is the sum of lanes 2i and 2i+1 of the two concatenated vectors.
inline Lanes pairwise_add(Lanes left, Lanes right) {
    return SHUFFLE(left, right, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
           SHUFFLE(left, right, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}

// The sums of sixteen vectors at once: lane i is the sum of vector i. This takes 15 vector additions instead of 16 · 4.
inline Lanes horizontal_sums(Lanes (&vectors)[LANES]) {
    for (int count = LANES / 2; count > 0; count /= 2)
        for (int i = 0; i < count; i++) vectors[i] = pairwise_add(vectors[2 * i], vectors[2 * i + 1]);
    return vectors[0];
}

inline float horizontal_sum(Lanes lanes) {
    for (int count = LANES / 2; count > 0; count /= 2) lanes = pairwise_add(lanes, lanes);
    return lanes[0];
}

inline float horizontal_max(Lanes lanes) {
    lanes = maximum(lanes, SHUFFLE(lanes, lanes, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
    lanes = maximum(lanes, SHUFFLE(lanes, lanes, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
    lanes = maximum(lanes, SHUFFLE(lanes, lanes, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    lanes = maximum(lanes, SHUFFLE(lanes, lanes, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
    return lanes[0];
}

// The first `count` lanes; the other lanes become zero.
inline Lanes keep_first(Lanes lanes, int64_t count) {
    const IntLanes order{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return order < int32_t(count < LANES ? count : LANES) ? lanes : Lanes{};
}

// exp(x) = 2^n · exp(r) with n the integer nearest to x / ln 2 and |r| <= ln 2 / 2, where a short
// Taylor series is accurate. n ln 2 is subtracted in two parts (Cody & Waite 1980), so that r keeps all its digits.
inline Lanes exponential(Lanes x) {
    const Lanes lowest = broadcast(-87.0f);  // a smaller exp(x) is lost in a sum with exp(0)
    const Lanes highest = broadcast(88.0f);
    x = x < lowest ? lowest : x;
    x = x > highest ? highest : x;
    const Lanes magic = broadcast(12582912.0f);  // 1.5 · 2^23: adding it rounds to an integer
    Lanes exponent = (x * 1.44269504f + magic) - magic;
    Lanes remainder = x - exponent * 0.693359375f;
    remainder = remainder - exponent * -2.12194440e-4f;
    Lanes series = broadcast(1.0f / 5040);
    for (float coefficient : {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
        series = series * remainder + coefficient;
    IntLanes power = (__builtin_convertvector(exponent, IntLanes) + 127) << 23;  // the bits of 2^n
    Lanes scale;
    std::memcpy(&scale, &power, sizeof scale);
    return series * scale;
}
