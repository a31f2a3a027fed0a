// The forward pass of one thread through the blocks of an encoder or decoder, synchronized with the other threads.
//
// The columns of a linear layer, heads, or rows are divided among the threads. With very few rows each thread has a
// copy of the residual stream, because computing a norm twice is cheaper than a barrier.

#pragma once

#include "attention.hpp"
#include "model.hpp"

class ForwardPass {
public:
    ForwardPass(Model& model, const Stack& stack, Workspace& workspace, WorkShare share, int64_t rows)
        : stack(stack), workspace(workspace), share(share), precision_(model.precision),
          thread_pool_(model.thread_pool), rows_(rows), replicated_(rows <= MAX_REPLICATED_ROWS),
          own_workspace_(workspace.thread_workspaces[replicated_ ? share.thread : 0]),
          first_(replicated_ ? 0 : share.first(rows)), end_(replicated_ ? rows : share.end(rows)) {}

    // The residual stream begins with token embedding · √width + position encoding.
    template <class Token, class Position>
    void embed(Token token, Position position) {
        for (int64_t row = first_; row < end_; row++) {
            const float *embedding = stack.embeddings + token(row) * stack.width, *encoding = position(row);
            float* to = own_workspace_.stream.row(row);
            for (int64_t i = 0; i < stack.width; i++) to[i] = embedding[i] * stack.scale + encoding[i];
        }
    }

    // A linear layer applied to the stream: with pre-norm to the normalized stream.
    void linear_from_stream(const Norm& norm, const PackedLinear& layer, const FloatMatrix& to,
                            Activation activation = Activation::none) {
        linear(layer, quantize_stream(norm), to.row(0), to.stride(), activation);
    }

    void linear_from_matrix(const FloatMatrix& from, const PackedLinear& layer) {
        const FloatMatrix& to = workspace.sublayer_output;
        linear(layer, quantized(from, layer.inputs()), to.row(0), to.stride());
    }

    void linear(const PackedLinear& layer, LinearInput from, float* to, int64_t stride,
                Activation activation = Activation::none) {
        layer.apply(from, rows_, to, stride, activation, share);
        thread_pool_.barrier();
    }

    // The stream as the input of a linear layer; with pre-norm it is normalized first.
    LinearInput quantize_stream(const Norm& norm) {
        if (!stack.norm_first) return quantized(own_workspace_.stream, stack.width);
        for (int64_t row = first_; row < end_; row++)
            norm.apply(own_workspace_.stream.row(row), own_workspace_.normalized.row(row));
        return quantized(own_workspace_.normalized, stack.width);
    }

    // x ← x + f(x): adds the output of a sublayer to the stream; with post-norm, normalizes the sum.
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

    // Calls `body(group, offset of the head)` for every head of every group of rows.
    template <class Body>
    void for_each_head(int64_t groups, Body body) {
        int64_t items = groups * stack.heads;
        for (int64_t item = share.first(items); item < share.end(items); item++)
            body(item / stack.heads, item % stack.heads * stack.padded_head_size);
        thread_pool_.barrier();
    }

    // Attention of one head of one row; the query is in `workspace.projected`.
    void attend(int64_t row, int64_t offset, const KeyValueView& kv) {
        // The attention weights are always those of the thread, even where the rest of the workspace is shared.
        ::attend(workspace.projected.row(row) + offset, stack.padded_head_size, 1 / std::sqrt(float(stack.head_size)),
                 kv, workspace.thread_workspaces[share.thread].weights.data(), workspace.attention_output.row(row) + offset);
    }

    // Converts logits to log-probabilities: log softmax(x) = x - max - log Σ exp(x - max). The sum is computed in
    // blocks of fixed size, so that it is the same to the last bit for any number of threads.
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
        Lanes remainder{};
        std::memcpy(&remainder, row + i, (end - i) * sizeof(float));
        total += keep_first(exponential(remainder - maximum_score), end - i);
        result[0] = maximum_score, result[1] = horizontal_sum(total);
    }

    // log Σ exp over all blocks of a row.
    static float log_sum_exp(const float* sums, int64_t blocks) {
        float maximum_score = sums[0], total = 0;
        for (int64_t i = 1; i < blocks; i++) maximum_score = std::max(maximum_score, sums[2 * i]);
        for (int64_t i = 0; i < blocks; i++) total += sums[2 * i + 1] * std::exp(sums[2 * i] - maximum_score);
        return maximum_score + std::log(total);
    }

    // The rows of a matrix as the input of a linear layer: converted to bf16 or int8, unchanged in float32.
    LinearInput quantized(const FloatMatrix& matrix, int64_t size) {
        const bool is_float32 = precision_ == Precision::float32;
        for (int64_t row = first_; row < end_ && !is_float32; row++)
            own_workspace_.scales[row] = quantize(precision_, matrix.row(row), size,
                                                  reinterpret_cast<char*>(own_workspace_.quantized.row(row)));
        if (!replicated_) thread_pool_.barrier();
        const FloatMatrix& from = is_float32 ? matrix : own_workspace_.quantized;
        const float* scales = is_float32 ? nullptr : own_workspace_.scales.data();
        return {reinterpret_cast<char*>(from.row(0)), from.stride() * int64_t(sizeof(float)), scales};
    }

    const Precision precision_;
    ThreadPool& thread_pool_;
    const int64_t rows_;
    const bool replicated_;  // every thread computes all rows in its own workspace
    ThreadWorkspace& own_workspace_;
    const int64_t first_, end_;  // the rows of this thread
};
