// One step of beam search without operators of torch: computes what `BeamSearch.advance` in decoding/beam.py computes,
// with results equal to the last bit.
//
// At batch size 1 a step reads the scores of the vocabulary once and then handles a few dozen numbers, so in Python
// nearly all of its time is the overhead of operator calls. Inputs are independent and are processed one by one.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "lanes.hpp"

// A continuation: its token, the log-probability of the token, the row it continues, and the sum of both.
struct Candidate {
    float total, score;
    int64_t row, token;
};

// The best of the inserted candidates, best first; among equals the one that was inserted earlier comes first.
class TopK {
public:
    explicit TopK(size_t capacity) : capacity_(capacity) { items_.reserve(capacity + 1); }

    void clear() { items_.clear(); }
    int64_t capacity() const { return int64_t(capacity_); }
    bool full() const { return items_.size() == capacity_; }
    float worst_score() const { return items_.back().total; }
    const std::vector<Candidate>& items() const { return items_; }

    // Returns whether the candidate is among the best.
    bool insert(const Candidate& candidate) {
        if (full() && candidate.total <= worst_score()) return false;
        if (full()) items_.pop_back();
        auto position = items_.end();
        while (position != items_.begin() && (position - 1)->total < candidate.total) position--;
        items_.insert(position, candidate);
        return true;
    }

private:
    const size_t capacity_;
    std::vector<Candidate> items_;
};

struct BeamStep {
    int64_t inputs, width, vocab_size, stride, max_length, time, eos, pad;
    // Inputs: the scores (row, vocab_size), with `stride` between rows; the sums (input, width) of the live
    // hypotheses; the inputs that are done; the tokens (row, max_length) so far, and their log-probabilities.
    const float *scores, *sums;
    const uint8_t* done;
    const int64_t* history_tokens;
    const float* history_log_probabilities;
    // Outputs: the sums and histories of the live hypotheses after the step, their parents and their new tokens.
    float* new_sums;
    int64_t *parents, *tokens;
    float* token_log_probabilities;
    int64_t* new_history_tokens;
    float* new_history_log_probabilities;
    // The `width` best of all continuations: their sums, their parents, and whether they end in <eos>.
    float* ended_sums;
    int64_t* ended_parents;
    uint8_t* is_eos;

    static constexpr int SOME_ENDED = 1, SOME_EXHAUSTED = 2, NAN_SCORES = -1;

    // Returns the flags above that hold for any input, or NAN_SCORES as soon as a NaN is found.
    int run() const {
        TopK best_of_row(size_t(std::min(vocab_size, 2 * width))), best_of_input(size_t(2 * width));
        int flags = 0;
        for (int64_t input = 0; input < inputs; input++) {
            best_of_input.clear();
            for (int64_t row = input * width; row < (input + 1) * width; row++) {
                if (!top_of_row(row, best_of_row)) return NAN_SCORES;
                for (Candidate candidate : best_of_row.items()) {
                    candidate.total = sums[row] + candidate.score;
                    if (std::isnan(candidate.total)) return NAN_SCORES;
                    if (!best_of_input.insert(candidate)) break;  // the following candidates are not better
                }
            }
            flags |= collect_ended(input, best_of_input.items()) | continue_live(input, best_of_input.items());
        }
        return flags;
    }

private:
    static constexpr int64_t BLOCK = 4 * LANES;

    // The best tokens of a row by their scores. Most scores are below the threshold of the best, so whole blocks are
    // compared with the threshold first. Returns false if a score is NaN: a NaN is never below the threshold.
    bool top_of_row(int64_t row, TopK& best) const {
        best.clear();
        const float* from = scores + row * stride;
        float threshold = score_threshold(from, best.capacity());
        for (int64_t token = 0, end; token < vocab_size; token = end) {
            end = std::min(token + BLOCK, vocab_size);
            if (end - token == BLOCK && all_below(from + token, threshold)) continue;
            for (; token < end; token++) {
                if (from[token] < threshold) continue;
                if (std::isnan(from[token])) return false;
                best.insert({from[token], from[token], row, token});
                // From now on a score must exceed the worst of the best: an equal score comes later.
                if (best.full()) threshold = std::max(threshold, std::nextafter(best.worst_score(), INFINITY));
            }
        }
        return true;
    }

    // A lower bound of the `capacity`-th best score: the `capacity`-th best of the maxima of 64 interleaved subsets.
    float score_threshold(const float* from, int64_t capacity) const {
        if (capacity > BLOCK || vocab_size < BLOCK) return -INFINITY;
        Lanes maxima[4];
        for (int i = 0; i < 4; i++) maxima[i] = load(from + i * LANES);
        for (int64_t token = BLOCK; token + BLOCK <= vocab_size; token += BLOCK)
            for (int i = 0; i < 4; i++) maxima[i] = maximum(maxima[i], load(from + token + i * LANES));
        float values[BLOCK];
        for (int i = 0; i < 4; i++) store(values + i * LANES, maxima[i]);
        for (float score : values)
            if (std::isnan(score)) return -INFINITY;  // nth_element requires an order, which NaN does not have
        std::nth_element(values, values + capacity - 1, values + BLOCK, std::greater<float>());
        return values[capacity - 1];
    }

    static bool all_below(const float* from, float threshold) {
        IntLanes below = load(from) < threshold;
        for (int64_t i = LANES; i < BLOCK; i += LANES) below &= load(from + i) < threshold;
        int64_t words[sizeof below / sizeof(int64_t)], all = -1;
        std::memcpy(words, &below, sizeof below);
        for (int64_t word : words) all &= word;
        return all == -1;
    }

    // Marks the continuations among the first `width` that end in <eos>, unless the input is done.
    int collect_ended(int64_t input, const std::vector<Candidate>& best) const {
        int flags = 0;
        for (int64_t i = 0; i < width; i++) {
            int64_t index = input * width + i;
            ended_sums[index] = best[i].total, ended_parents[index] = best[i].row;
            is_eos[index] = best[i].token == eos && !done[input];
            if (is_eos[index]) flags = SOME_ENDED;
        }
        return flags;
    }

    // The first `width` continuations without <eos> are the next live hypotheses; an input that is done appends PAD.
    int continue_live(int64_t input, const std::vector<Candidate>& best) const {
        int64_t row = input * width;
        for (size_t i = 0; row < (input + 1) * width; i++) {
            if (best[i].token == eos) continue;
            new_sums[row] = best[i].total;
            parents[row] = done[input] ? row : best[i].row;
            tokens[row] = done[input] ? pad : best[i].token;
            token_log_probabilities[row] = done[input] ? 0 : best[i].score;
            append_token(row);
            row++;
        }
        return new_sums[input * width] == -INFINITY ? SOME_EXHAUSTED : 0;
    }

    void append_token(int64_t row) const {
        int64_t to = row * max_length, from = parents[row] * max_length;
        std::memcpy(new_history_tokens + to, history_tokens + from, max_length * sizeof *history_tokens);
        std::memcpy(new_history_log_probabilities + to, history_log_probabilities + from,
                    max_length * sizeof *history_log_probabilities);
        new_history_tokens[to + time] = tokens[row];
        new_history_log_probabilities[to + time] = token_log_probabilities[row];
    }
};

static_assert(sizeof(BeamStep) == 22 * sizeof(int64_t), "in fast_search.py every field has eight bytes");
