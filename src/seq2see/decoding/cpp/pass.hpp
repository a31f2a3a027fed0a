// One thread's walk through the blocks of an encoder or decoder, in step with the other threads.
//
// Threads split the columns of a product, or heads, or rows. With very few rows each thread keeps the
// stream for itself, because computing a norm twice is cheaper than waiting for somebody else's.

#pragma once

#include "attention.hpp"
#include "model.hpp"

class Pass {
public:
    Pass(Model& model, const Half& half, Buffers& buffers, Share share, int64_t rows)
        : half(half), buffers(buffers), share(share), precision_(model.precision), team_(model.team), rows_(rows),
          alone_(rows <= FEW), own_(buffers.places[alone_ ? share.thread : 0]),
          first_(alone_ ? 0 : share.first(rows)), end_(alone_ ? rows : share.end(rows)) {}

    // The stream begins with the tokens' vectors, times √width, plus where they stand.
    template <class Token, class Position>
    void embed(Token token, Position position) {
        for (int64_t row = first_; row < end_; row++) {
            const float *vector = half.table + token(row) * half.width, *place = position(row);
            float* to = own_.stream.row(row);
            for (int64_t i = 0; i < half.width; i++) to[i] = vector[i] * half.scale + place[i];
        }
    }

    // A product of the stream, normalised first in one order of things, as it is in the other.
    void multiply_stream(const Norm& norm, const Product& product, const Table& to, Finish finish = Finish::plain) {
        multiply(product, encode_stream(norm), to.row(0), to.stride(), finish);
    }

    void multiply_table(const Table& from, const Product& product) {
        multiply(product, encoded(from, product.inputs()), buffers.answer.row(0), buffers.answer.stride());
    }

    void multiply(const Product& product, Rows from, float* to, int64_t stride, Finish finish = Finish::plain) {
        product.apply(from, rows_, to, stride, finish, share);
        team_.meet();
    }

    Rows encode_stream(const Norm& norm) {
        if (!half.norm_first) return encoded(own_.stream, half.width);
        for (int64_t row = first_; row < end_; row++) norm.apply(own_.stream.row(row), own_.normal.row(row));
        return encoded(own_.normal, half.width);
    }

    // What a part of the block answered is added to the stream.
    void add_answer(const Norm& norm) {
        for (int64_t row = first_; row < end_; row++) {
            float *stream = own_.stream.row(row), *answer = buffers.answer.row(row);
            for (int64_t i = 0; i < half.width; i++) stream[i] += answer[i];
            if (!half.norm_first) norm.apply(stream, stream);
        }
    }

    // max(0, x W₁ + b₁) W₂ + b₂ (Vaswani et al. 2017, eq. 2).
    void think(const Block& block) {
        multiply_stream(block.around_think, block.widen, buffers.hidden, Finish::relu);
        multiply_table(buffers.hidden, block.narrow);
        add_answer(block.around_think);
    }

    // Every head of every group of rows looks: `look(group, where the head's numbers begin)`.
    template <class Look>
    void look(int64_t groups, Look look) {
        int64_t pieces = groups * half.heads;
        for (int64_t piece = share.first(pieces); piece < share.end(pieces); piece++)
            look(piece / half.heads, piece % half.heads * half.head_room);
        team_.meet();
    }

    // One head of one row looks, with the query that was projected for it.
    void attend(int64_t row, int64_t offset, const Looked& at) {
        // Each thread has weights of its own, even where the rest is shared.
        ::attend(buffers.projected.row(row) + offset, half.head_room, 1 / std::sqrt(float(half.size)), at,
                 buffers.places[share.thread].weights.data(), buffers.found.row(row) + offset);
    }

    // Scores become log-probabilities: log softmax(x) = x - max - log Σ exp(x - max). The sum is taken in blocks of
    // fixed size, so that it is the same to the last bit however many threads take part.
    void log_softmax(float* scores, int64_t columns, float* partial) {
        int64_t blocks = (columns + BLOCK - 1) / BLOCK, pieces = rows_ * blocks;
        for (int64_t piece = share.first(pieces); piece < share.end(pieces); piece++)
            exponential_sum(scores + piece / blocks * columns, piece % blocks * BLOCK, columns, partial + 2 * piece);
        team_.meet();
        int64_t first = share.first(pieces), end = share.end(pieces);
        for (int64_t row = first / blocks; row * blocks < end; row++) {
            float total = log_total(partial + 2 * row * blocks, blocks);
            int64_t from = std::max(first - row * blocks, int64_t(0)) * BLOCK;
            int64_t to = std::min((end - row * blocks) * BLOCK, columns);
            for (int64_t i = from; i < to; i++) scores[row * columns + i] -= total;
        }
    }

    static int64_t partial_sums(int64_t rows, int64_t columns) { return 2 * rows * ((columns + BLOCK - 1) / BLOCK); }

    const Half& half;
    Buffers& buffers;
    const Share share;

private:
    static constexpr int64_t FEW = 2, BLOCK = 2048;

    // The maximum of a block of scores, and the sum of their exponentials relative to it.
    static void exponential_sum(const float* row, int64_t first, int64_t columns, float* result) {
        int64_t end = std::min(first + BLOCK, columns);
        float most = row[first];
        for (int64_t i = first; i < end; i++) most = row[i] > most ? row[i] : most;
        Lanes total{};
        int64_t i = first;
        for (; i + LANES <= end; i += LANES) total += exponential(load(row + i) - most);
        Lanes rest{};
        std::memcpy(&rest, row + i, (end - i) * sizeof(float));
        total += first_of(exponential(rest - most), end - i);
        result[0] = most, result[1] = sum_of(total);
    }

    // log Σ exp over all blocks of a row.
    static float log_total(const float* sums, int64_t blocks) {
        float most = sums[0], total = 0;
        for (int64_t i = 1; i < blocks; i++) most = std::max(most, sums[2 * i]);
        for (int64_t i = 0; i < blocks; i++) total += sums[2 * i + 1] * std::exp(sums[2 * i] - most);
        return most + std::log(total);
    }

    // The vectors of a table as products take them in.
    Rows encoded(const Table& table, int64_t size) {
        const bool plain = precision_ == Precision::float32;  // such vectors are taken in as they are
        for (int64_t row = first_; row < end_ && !plain; row++)
            own_.scales[row] = encode(precision_, table.row(row), size, reinterpret_cast<char*>(own_.encoded.row(row)));
        if (!alone_) team_.meet();
        const Table& from = plain ? table : own_.encoded;
        const float* scales = plain ? nullptr : own_.scales.data();
        return {reinterpret_cast<char*>(from.row(0)), from.stride() * int64_t(sizeof(float)), scales};
    }

    const Precision precision_;
    Team& team_;
    const int64_t rows_;
    const bool alone_;  // every thread walks with all rows, at a place of its own
    Workplace& own_;
    const int64_t first_, end_;  // the rows that this thread tends
};
