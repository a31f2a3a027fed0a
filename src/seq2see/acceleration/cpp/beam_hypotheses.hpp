// The best finished hypotheses of each input: computes what `BeamSearch.store_finished` in decoding/beam.py computes,
// with results equal to the last bit.

#pragma once

#include "beam_step.hpp"

struct AddFinished {
    int64_t inputs, width, stride, max_length, time, eos;
    // Inputs: the scores (row, vocab_size), with `stride` between rows; the penalized scores (input, width) of the
    // newly finished hypotheses and the rows they end; the tokens (row, max_length) and their log-probabilities.
    const float *scores, *finished_scores;
    const int64_t *parents, *history_tokens;
    const float* history_log_probabilities;
    // The stored hypotheses: scores and lengths (input, width), tokens and log-probabilities (input, width, max_length).
    const float* hypothesis_scores;
    const int64_t *hypothesis_lengths, *hypothesis_tokens;
    const float* hypothesis_log_probabilities;
    // Outputs: the stored hypotheses after the merge.
    float* new_scores;
    int64_t *new_lengths, *new_tokens;
    float* new_log_probabilities;

    // Returns 0, or NAN_SCORES.
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

    void write(int64_t index, const Candidate& hypothesis) const {
        const int64_t row = hypothesis.row, end = index * max_length + time;
        new_scores[index] = hypothesis.total;
        if (hypothesis.token == EXISTING) {
            new_lengths[index] = hypothesis_lengths[row];
            copy(index, hypothesis_tokens + row * max_length, hypothesis_log_probabilities + row * max_length);
            return;
        }
        new_lengths[index] = time + 1;
        copy(index, history_tokens + parents[row] * max_length, history_log_probabilities + parents[row] * max_length);
        new_tokens[end] = eos, new_log_probabilities[end] = scores[parents[row] * stride + eos];
    }

    void copy(int64_t index, const int64_t* tokens, const float* log_probabilities) const {
        std::memcpy(new_tokens + index * max_length, tokens, max_length * sizeof *tokens);
        std::memcpy(new_log_probabilities + index * max_length, log_probabilities,
                    max_length * sizeof *log_probabilities);
    }
};

static_assert(sizeof(AddFinished) == 19 * sizeof(int64_t), "in fast_search.py every field has eight bytes");
