// The best answers of each input so far: what `plain_keep` in kept.py says, to the last bit.

#pragma once

#include "beam.hpp"

struct Keeping {
    int64_t inputs, width, stride, room, time, eos;
    // What is read: the scores (row, vocabulary), whose rows begin `stride` apart; what each newcomer is worth
    // (input, width) and which row it ends; what was said (row, room), and its log-probabilities.
    const float *scores, *worth;
    const int64_t *parents, *said;
    const float* said_scores;
    // The answers kept so far: their worth and length (input, width), what they say (input, width, room).
    const float* kept_worth;
    const int64_t *kept_lengths, *kept_said;
    const float* kept_scores;
    // What is written: the same with the newcomers.
    float* new_worth;
    int64_t *new_lengths, *new_said;
    float* new_scores;

    // 0, or that these cannot be ranked.
    int keep() const {
        for (int64_t i = 0; i < inputs * width; i++)
            if (std::isnan(worth[i]) || std::isnan(kept_worth[i])) return Turn::NOT_NUMBERS;
        Best best{size_t(width)};
        for (int64_t first = 0; first < inputs * width; first += width) {
            best.clear();
            for (int64_t i = first; i < first + width; i++) best.offer({kept_worth[i], 0, i, OLD});
            for (int64_t i = first; i < first + width; i++) best.offer({worth[i], 0, i, NEW});
            for (int64_t i = 0; i < width; i++) write(first + i, best.found()[i]);
        }
        return 0;
    }

private:
    static constexpr int64_t OLD = 0, NEW = 1;

    void write(int64_t place, const Candidate& answer) const {
        const int64_t row = answer.row, end = place * room + time;
        new_worth[place] = answer.total;
        if (answer.token == OLD) {
            new_lengths[place] = kept_lengths[row];
            copy(place, kept_said + row * room, kept_scores + row * room);
            return;
        }
        new_lengths[place] = time + 1;
        copy(place, said + parents[row] * room, said_scores + parents[row] * room);
        new_said[end] = eos, new_scores[end] = scores[parents[row] * stride + eos];
    }

    void copy(int64_t place, const int64_t* tokens, const float* token_scores) const {
        std::memcpy(new_said + place * room, tokens, room * sizeof *tokens);
        std::memcpy(new_scores + place * room, token_scores, room * sizeof *token_scores);
    }
};

static_assert(sizeof(Keeping) == 19 * sizeof(int64_t), "kept.py gives every field eight bytes");
