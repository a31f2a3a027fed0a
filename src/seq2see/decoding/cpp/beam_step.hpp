// One turn of beam search without any operator of torch: what `plain_turn` in turns.py says, to the last bit.
//
// At batch 1 a turn is a few dozen numbers beside a vocabulary that is read once, so what it costs in Python is
// almost only the calling of operators. Inputs never look at each other, so they are done one after another.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "lanes.hpp"

// A token that may come next: its score, the row it continues, and what both come to together.
struct Candidate {
    float total, score;
    int64_t row, token;
};

// The best few of what is offered, best first; of equals the one that was offered earlier stands first.
class TopK {
public:
    explicit TopK(size_t capacity) : capacity_(capacity) { items_.reserve(capacity + 1); }

    void clear() { items_.clear(); }
    int64_t capacity() const { return int64_t(capacity_); }
    bool full() const { return items_.size() == capacity_; }
    float worst_score() const { return items_.back().total; }
    const std::vector<Candidate>& items() const { return items_; }

    // Whether it got in.
    bool insert(const Candidate& candidate) {
        if (full() && candidate.total <= worst_score()) return false;
        if (full()) items_.pop_back();
        auto place = items_.end();
        while (place != items_.begin() && (place - 1)->total < candidate.total) place--;
        items_.insert(place, candidate);
        return true;
    }

private:
    const size_t capacity_;
    std::vector<Candidate> items_;
};

struct BeamStep {
    int64_t inputs, width, vocab_size, stride, max_length, time, eos, pad;
    // What is read: the scores (row, vocabulary), whose rows begin `stride` apart; the sums (input, width) of the live
    // hypotheses; which inputs are done; what was said (row, room), and its log-probabilities.
    const float *scores, *sums;
    const uint8_t* done;
    const int64_t* history_tokens;
    const float* history_log_probabilities;
    // What is written: the same of the live hypotheses one token later, and what each of them continues and says.
    float* new_sums;
    int64_t *parents, *tokens;
    float* token_log_probabilities;
    int64_t* new_history_tokens;
    float* new_history_log_probabilities;
    // Of the `width` best of all continuations their sums, what they continue, and whether they end.
    float* ended_sums;
    int64_t* ended_parents;
    uint8_t* is_eos;

    static constexpr int SOME_ENDED = 1, SOME_EXHAUSTED = 2, NAN_SCORES = -1;

    // Which of the above happened to any input; or, as soon as a NaN is met, that nobody can rank these scores.
    int run() const {
        TopK of_row(size_t(std::min(vocab_size, 2 * width))), of_input(size_t(2 * width));
        int flags = 0;
        for (int64_t input = 0; input < inputs; input++) {
            of_input.clear();
            for (int64_t row = input * width; row < (input + 1) * width; row++) {
                if (!top_of_row(row, of_row)) return NAN_SCORES;
                for (Candidate candidate : of_row.items()) {
                    candidate.total = sums[row] + candidate.score;
                    if (std::isnan(candidate.total)) return NAN_SCORES;
                    if (!of_input.insert(candidate)) break;  // the next ones are not better
                }
            }
            flags |= collect_ended(input, of_input.items()) | continue_live(input, of_input.items());
        }
        return flags;
    }

private:
    static constexpr int64_t BLOCK = 4 * LANES;

    // The best tokens of a row by their score alone. Most of a vocabulary is below what it takes to get in, so many
    // scores are compared with that at once. False if one is a NaN, which is below nothing.
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
                // From now on the worst that is kept must be beaten: its equals came later.
                if (best.full()) threshold = std::max(threshold, std::nextafter(best.worst_score(), INFINITY));
            }
        }
        return true;
    }

    // A score that as many tokens reach as there are places: of the best of every 64th token the last that gets in.
    float score_threshold(const float* from, int64_t capacity) const {
        if (capacity > BLOCK || vocab_size < BLOCK) return -INFINITY;
        Lanes maxima[4];
        for (int i = 0; i < 4; i++) maxima[i] = load(from + i * LANES);
        for (int64_t token = BLOCK; token + BLOCK <= vocab_size; token += BLOCK)
            for (int i = 0; i < 4; i++) maxima[i] = maximum(maxima[i], load(from + token + i * LANES));
        float each[BLOCK];
        for (int i = 0; i < 4; i++) store(each + i * LANES, maxima[i]);
        for (float score : each)
            if (std::isnan(score)) return -INFINITY;  // sorting would not end well
        std::nth_element(each, each + capacity - 1, each + BLOCK, std::greater<float>());
        return each[capacity - 1];
    }

    static bool all_below(const float* from, float threshold) {
        IntLanes below = load(from) < threshold;
        for (int64_t i = LANES; i < BLOCK; i += LANES) below &= load(from + i) < threshold;
        int64_t words[sizeof below / sizeof(int64_t)], all = -1;
        std::memcpy(words, &below, sizeof below);
        for (int64_t word : words) all &= word;
        return all == -1;
    }

    // Those of the first `width` that end, unless the input has all it wants.
    int collect_ended(int64_t input, const std::vector<Candidate>& best) const {
        int flags = 0;
        for (int64_t i = 0; i < width; i++) {
            int64_t place = input * width + i;
            ended_sums[place] = best[i].total, ended_parents[place] = best[i].row;
            is_eos[place] = best[i].token == eos && !done[input];
            if (is_eos[place]) flags = SOME_ENDED;
        }
        return flags;
    }

    // The first `width` that do not end live on; an input that is done says PAD and stays where it is.
    int continue_live(int64_t input, const std::vector<Candidate>& best) const {
        int64_t place = input * width;
        for (size_t i = 0; place < (input + 1) * width; i++) {
            if (best[i].token == eos) continue;
            new_sums[place] = best[i].total;
            parents[place] = done[input] ? place : best[i].row;
            tokens[place] = done[input] ? pad : best[i].token;
            token_log_probabilities[place] = done[input] ? 0 : best[i].score;
            append_token(place);
            place++;
        }
        return new_sums[input * width] == -INFINITY ? SOME_EXHAUSTED : 0;
    }

    void append_token(int64_t row) const {
        int64_t to = row * max_length, from = parents[row] * max_length;
        std::memcpy(new_history_tokens + to, history_tokens + from, max_length * sizeof *history_tokens);
        std::memcpy(new_history_log_probabilities + to, history_log_probabilities + from, max_length * sizeof *history_log_probabilities);
        new_history_tokens[to + time] = tokens[row], new_history_log_probabilities[to + time] = token_log_probabilities[row];
    }
};

static_assert(sizeof(BeamStep) == 22 * sizeof(int64_t), "turns.py gives every field eight bytes");
