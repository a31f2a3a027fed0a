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
class Best {
public:
    explicit Best(size_t places) : places_(places) { found_.reserve(places + 1); }

    void clear() { found_.clear(); }
    int64_t places() const { return int64_t(places_); }
    bool full() const { return found_.size() == places_; }
    float worst() const { return found_.back().total; }
    const std::vector<Candidate>& found() const { return found_; }

    // Whether it got in.
    bool offer(const Candidate& candidate) {
        if (full() && candidate.total <= worst()) return false;
        if (full()) found_.pop_back();
        auto place = found_.end();
        while (place != found_.begin() && (place - 1)->total < candidate.total) place--;
        found_.insert(place, candidate);
        return true;
    }

private:
    const size_t places_;
    std::vector<Candidate> found_;
};

struct Turn {
    int64_t inputs, width, vocabulary, stride, room, time, eos, pad;
    // What is read: the scores (row, vocabulary), whose rows begin `stride` apart; the sums (input, width) of the live
    // hypotheses; which inputs are done; what was said (row, room), and its log-probabilities.
    const float *scores, *sums;
    const uint8_t* done;
    const int64_t* said;
    const float* said_scores;
    // What is written: the same of the live hypotheses one token later, and what each of them continues and says.
    float* new_sums;
    int64_t *parents, *tokens;
    float* token_scores;
    int64_t* new_said;
    float* new_said_scores;
    // Of the `width` best of all continuations their sums, what they continue, and whether they end.
    float* ended_sums;
    int64_t* ended_parents;
    uint8_t* ends;

    static constexpr int ENDING = 1, LOST = 2, NOT_NUMBERS = -1;

    // Which of the above happened to any input; or, as soon as a NaN is met, that nobody can rank these scores.
    int take() const {
        Best of_row(size_t(std::min(vocabulary, 2 * width))), of_input(size_t(2 * width));
        int happened = 0;
        for (int64_t input = 0; input < inputs; input++) {
            of_input.clear();
            for (int64_t row = input * width; row < (input + 1) * width; row++) {
                if (!rank_row(row, of_row)) return NOT_NUMBERS;
                for (Candidate candidate : of_row.found()) {
                    candidate.total = sums[row] + candidate.score;
                    if (std::isnan(candidate.total)) return NOT_NUMBERS;
                    if (!of_input.offer(candidate)) break;  // the next ones are not better
                }
            }
            happened |= note_ends(input, of_input.found()) | go_on(input, of_input.found());
        }
        return happened;
    }

private:
    static constexpr int64_t AT_ONCE = 4 * LANES;

    // The best tokens of a row by their score alone. Most of a vocabulary is below what it takes to get in, so many
    // scores are compared with that at once. False if one is a NaN, which is below nothing.
    bool rank_row(int64_t row, Best& best) const {
        best.clear();
        const float* from = scores + row * stride;
        float needed = certainly_needed(from, best.places());
        for (int64_t token = 0, end; token < vocabulary; token = end) {
            end = std::min(token + AT_ONCE, vocabulary);
            if (end - token == AT_ONCE && all_below(from + token, needed)) continue;
            for (; token < end; token++) {
                if (from[token] < needed) continue;
                if (std::isnan(from[token])) return false;
                best.offer({from[token], from[token], row, token});
                // From now on the worst that is kept must be beaten: its equals came later.
                if (best.full()) needed = std::max(needed, std::nextafter(best.worst(), INFINITY));
            }
        }
        return true;
    }

    // A score that as many tokens reach as there are places: of the best of every 64th token the last that gets in.
    float certainly_needed(const float* from, int64_t places) const {
        if (places > AT_ONCE || vocabulary < AT_ONCE) return -INFINITY;
        Lanes most[4];
        for (int i = 0; i < 4; i++) most[i] = load(from + i * LANES);
        for (int64_t token = AT_ONCE; token + AT_ONCE <= vocabulary; token += AT_ONCE)
            for (int i = 0; i < 4; i++) most[i] = larger(most[i], load(from + token + i * LANES));
        float each[AT_ONCE];
        for (int i = 0; i < 4; i++) store(each + i * LANES, most[i]);
        for (float score : each)
            if (std::isnan(score)) return -INFINITY;  // sorting would not end well
        std::nth_element(each, each + places - 1, each + AT_ONCE, std::greater<float>());
        return each[places - 1];
    }

    static bool all_below(const float* from, float needed) {
        IntLanes below = load(from) < needed;
        for (int64_t i = LANES; i < AT_ONCE; i += LANES) below &= load(from + i) < needed;
        int64_t words[sizeof below / sizeof(int64_t)], all = -1;
        std::memcpy(words, &below, sizeof below);
        for (int64_t word : words) all &= word;
        return all == -1;
    }

    // Those of the first `width` that end, unless the input has all it wants.
    int note_ends(int64_t input, const std::vector<Candidate>& best) const {
        int happened = 0;
        for (int64_t i = 0; i < width; i++) {
            int64_t place = input * width + i;
            ended_sums[place] = best[i].total, ended_parents[place] = best[i].row;
            ends[place] = best[i].token == eos && !done[input];
            if (ends[place]) happened = ENDING;
        }
        return happened;
    }

    // The first `width` that do not end live on; an input that is done says PAD and stays where it is.
    int go_on(int64_t input, const std::vector<Candidate>& best) const {
        int64_t place = input * width;
        for (size_t i = 0; place < (input + 1) * width; i++) {
            if (best[i].token == eos) continue;
            new_sums[place] = best[i].total;
            parents[place] = done[input] ? place : best[i].row;
            tokens[place] = done[input] ? pad : best[i].token;
            token_scores[place] = done[input] ? 0 : best[i].score;
            write_down(place);
            place++;
        }
        return new_sums[input * width] == -INFINITY ? LOST : 0;
    }

    void write_down(int64_t row) const {
        int64_t to = row * room, from = parents[row] * room;
        std::memcpy(new_said + to, said + from, room * sizeof *said);
        std::memcpy(new_said_scores + to, said_scores + from, room * sizeof *said_scores);
        new_said[to + time] = tokens[row], new_said_scores[to + time] = token_scores[row];
    }
};

static_assert(sizeof(Turn) == 22 * sizeof(int64_t), "turns.py gives every field eight bytes");
