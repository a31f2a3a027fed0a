// One thread's walk through the blocks of an encoder or decoder, in step with the other threads.
//
// Threads split the columns of a product, or heads, or rows. With very few rows each thread keeps the
// stream for itself, because computing a norm twice is cheaper than waiting for somebody else's.

#pragma once

#include "attention.hpp"
#include "model.hpp"

class ForwardPass {
public:
    ForwardPass(Model& model, const Stack& stack, Workspace& workspace, WorkShare share, int64_t rows)
        : stack(stack), workspace(workspace), share(share), precision_(model.precision), thread_pool_(model.thread_pool), rows_(rows),
          replicated_(rows <= MAX_REPLICATED_ROWS), own_workspace_(workspace.thread_workspaces[replicated_ ? share.thread : 0]),
          first_(replicated_ ? 0 : share.first(rows)), end_(replicated_ ? rows : share.end(rows)) {}

    // The stream begins with the tokens' vectors, times √width, plus where they stand.
    template <class Token, class Position>
    void embed(Token token, Position position) {
        for (int64_t row = first_; row < end_; row++) {
            const float *vector = stack.table + token(row) * stack.width, *place = position(row);
            float* to = own_workspace_.stream.row(row);
            for (int64_t i = 0; i < stack.width; i++) to[i] = vector[i] * stack.scale + place[i];
        }
    }

    // A product of the stream, normalized first in one order of things, as it is in the other.
    void linear_from_stream(const Norm& norm, const PackedLinear& layer, const FloatMatrix& to, Activation activation = Activation::plain) {
        linear(layer, quantize_stream(norm), to.row(0), to.stride(), activation);
    }

    void linear_from_matrix(const FloatMatrix& from, const PackedLinear& layer) {
        linear(layer, quantized(from, layer.inputs()), workspace.sublayer_output.row(0), workspace.sublayer_output.stride());
    }

    void linear(const PackedLinear& layer, LinearInput from, float* to, int64_t stride, Activation activation = Activation::plain) {
        layer.apply(from, rows_, to, stride, activation, share);
        thread_pool_.barrier();
    }

    LinearInput quantize_stream(const Norm& norm) {
        if (!stack.norm_first) return quantized(own_workspace_.stream, stack.width);
        for (int64_t row = first_; row < end_; row++) norm.apply(own_workspace_.stream.row(row), own_workspace_.normalized.row(row));
        return quantized(own_workspace_.normalized, stack.width);
    }

    // What a part of the block answered is added to the stream.
    void add_residual(const Norm& norm) {
        for (int64_t row = first_; row < end_; row++) {
            float *stream = own_workspace_.stream.row(row), *sublayer_output = workspace.sublayer_output.row(row);
            for (int64_t i = 0; i < stack.width; i++) stream[i] += sublayer_output[i];
            if (!stack.norm_first) norm.apply(stream, stream);
        }
    }

    // max(0, x W₁ + b₁) W₂ + b₂ (Vaswani et al. 2017, eq. 2).
    void feed_forward(const Block& block) {
        linear_from_stream(block.feed_forward_norm, block.fc1, workspace.hidden, Activation::relu);
        linear_from_matrix(workspace.hidden, block.fc2);
        add_residual(block.feed_forward_norm);
    }

    // Every head of every group of rows looks: `for_each_head(group, where the head's numbers begin)`.
    template <class Look>
    void for_each_head(int64_t groups, Look for_each_head) {
        int64_t items = groups * stack.heads;
        for (int64_t item = share.first(items); item < share.end(items); item++)
            for_each_head(item / stack.heads, item % stack.heads * stack.padded_head_size);
        thread_pool_.barrier();
    }

    // One head of one row looks, with the query that was projected for it.
    void attend(int64_t row, int64_t offset, const KeyValueView& kv) {
        // Each thread has weights of its own, even where the rest is shared.
        ::attend(workspace.projected.row(row) + offset, stack.padded_head_size, 1 / std::sqrt(float(stack.size)), kv,
                 workspace.thread_workspaces[share.thread].weights.data(), workspace.attention_output.row(row) + offset);
    }

    // Scores become log-probabilities: log softmax(x) = x - max - log Σ exp(x - max). The sum is taken in blocks of
    // fixed size, so that it is the same to the last bit however many threads take part.
    void log_softmax(float* scores, int64_t columns, float* partial) {
        int64_t blocks = (columns + BLOCK - 1) / BLOCK, items = rows_ * blocks;
        for (int64_t item = share.first(items); item < share.end(items); item++)
            block_exp_sum(scores + item / blocks * columns, item % blocks * BLOCK, columns, partial + 2 * item);
        thread_pool_.barrier();
        int64_t first = share.first(items), end = share.end(items);
        for (int64_t row = first / blocks; row * blocks < end; row++) {
            float total = log_sum_exp(partial + 2 * row * blocks, blocks);
            int64_t from = std::max(first - row * blocks, int64_t(0)) * BLOCK;
            int64_t to = std::min((end - row * blocks) * BLOCK, columns);
            for (int64_t i = from; i < to; i++) scores[row * columns + i] -= total;
        }
    }

    static int64_t partial_sums(int64_t rows, int64_t columns) { return 2 * rows * ((columns + BLOCK - 1) / BLOCK); }

    const Stack& stack;
    Workspace& workspace;
    const WorkShare share;

private:
    static constexpr int64_t MAX_REPLICATED_ROWS = 2, BLOCK = 2048;

    // The maximum of a block of scores, and the sum of their exponentials relative to it.
    static void block_exp_sum(const float* row, int64_t first, int64_t columns, float* result) {
        int64_t end = std::min(first + BLOCK, columns);
        float maximum_score = row[first];
        for (int64_t i = first; i < end; i++) maximum_score = row[i] > maximum_score ? row[i] : maximum_score;
        Lanes total{};
        int64_t i = first;
        for (; i + LANES <= end; i += LANES) total += exponential(load(row + i) - maximum_score);
        Lanes rest{};
        std::memcpy(&rest, row + i, (end - i) * sizeof(float));
        total += keep_first(exponential(rest - maximum_score), end - i);
        result[0] = maximum_score, result[1] = horizontal_sum(total);
    }

    // log Σ exp over all blocks of a row.
    static float log_sum_exp(const float* sums, int64_t blocks) {
        float maximum_score = sums[0], total = 0;
        for (int64_t i = 1; i < blocks; i++) maximum_score = std::max(maximum_score, sums[2 * i]);
        for (int64_t i = 0; i < blocks; i++) total += sums[2 * i + 1] * std::exp(sums[2 * i] - maximum_score);
        return maximum_score + std::log(total);
    }

    // The vectors of a table as products take them in.
    LinearInput quantized(const FloatMatrix& table, int64_t size) {
        const bool plain = precision_ == Precision::float32;  // such vectors are taken in as they are
        for (int64_t row = first_; row < end_ && !plain; row++)
            own_workspace_.scales[row] = quantize(precision_, table.row(row), size, reinterpret_cast<char*>(own_workspace_.quantized.row(row)));
        if (!replicated_) thread_pool_.barrier();
        const FloatMatrix& from = plain ? table : own_workspace_.quantized;
        const float* scales = plain ? nullptr : own_workspace_.scales.data();
        return {reinterpret_cast<char*>(from.row(0)), from.stride() * int64_t(sizeof(float)), scales};
    }

    const Precision precision_;
    ThreadPool& thread_pool_;
    const int64_t rows_;
    const bool replicated_;  // every thread walks with all rows, at a place of its own
    ThreadWorkspace& own_workspace_;
    const int64_t first_, end_;  // the rows that this thread tends
};
