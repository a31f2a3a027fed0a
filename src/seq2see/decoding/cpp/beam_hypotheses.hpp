// The best answers of each input so far: what `plain_keep` in kept.py says, to the last bit.

#pragma once

#include "beam.hpp"

struct AddFinished {
    int64_t inputs, width, stride, max_length, time, eos;
    // What is read: the scores (row, vocabulary), whose rows begin `stride` apart; what each newcomer is worth
    // (input, width) and which row it ends; what was said (row, room), and its log-probabilities.
    const float *scores, *finished_scores;
    const int64_t *parents, *history_tokens;
    const float* history_log_probabilities;
    // The answers kept so far: their worth and length (input, width), what they say (input, width, room).
    const float* hypothesis_scores;
    const int64_t *hypothesis_lengths, *hypothesis_tokens;
    const float* hypothesis_log_probabilities;
    // What is written: the same with the newcomers.
    float* new_scores;
    int64_t *new_lengths, *new_tokens;
    float* new_log_probabilities;

    // 0, or that these cannot be ranked.
    int run() const {
        for (int64_t i = 0; i < inputs * width; i++)
            if (std::isnan(finished_scores[i]) || std::isnan(hypothesis_scores[i])) return BeamStep::NAN_SCORES;
        TopK best{size_t(width)};
        for (int64_t first = 0; first < inputs * width; first += width) {
            best.clear();
            for (int64_t i = first; i < first + width; i++) best.insert({hypothesis_scores[i], 0, i, EXISTING});
            for (int64_t i = first; i < first + width; i++) best.insert({finished_scores[i], 0, i, FINISHED});
            for (int64_t i = 0; i < width; i++) write(first + i, best.items()[i]);
        }
        return 0;
    }

private:
    static constexpr int64_t EXISTING = 0, FINISHED = 1;

    void write(int64_t place, const Candidate& answer) const {
        const int64_t row = answer.row, end = place * max_length + time;
        new_scores[place] = answer.total;
        if (answer.token == EXISTING) {
            new_lengths[place] = hypothesis_lengths[row];
            copy(place, hypothesis_tokens + row * max_length, hypothesis_log_probabilities + row * max_length);
            return;
        }
        new_lengths[place] = time + 1;
        copy(place, history_tokens + parents[row] * max_length, history_log_probabilities + parents[row] * max_length);
        new_tokens[end] = eos, new_log_probabilities[end] = scores[parents[row] * stride + eos];
    }

    void copy(int64_t place, const int64_t* tokens, const float* token_log_probabilities) const {
        std::memcpy(new_tokens + place * max_length, tokens, max_length * sizeof *tokens);
        std::memcpy(new_log_probabilities + place * max_length, token_log_probabilities, max_length * sizeof *token_log_probabilities);
    }
};

static_assert(sizeof(AddFinished) == 19 * sizeof(int64_t), "kept.py gives every field eight bytes");
