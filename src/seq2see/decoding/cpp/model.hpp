// What a Transformer consists of, as plain numbers: norms, products and tables, in the order they are used.

#pragma once

#include <memory>

#include "products.hpp"

// Reads the numbers and the tables that describe a model, in the order in which they were listed.
struct WeightReader {
    const int64_t* sizes;
    const float* const* tensors;
    int64_t next_size() { return *sizes++; }
    const float* next_tensor() { return *tensors++; }
};

// Layer norm (Ba et al. 2016, eq. 4), or root-mean-square norm (Zhang & Sennrich 2019), which takes no mean away.
class Norm {
public:
    Norm() = default;
    Norm(WeightReader& reader, int64_t width, bool centered, float epsilon)
        : width_(width), centered_(centered), epsilon_(epsilon) {
        int64_t padded = round_up(width, LANES);
        weight_.resize(padded);
        bias_.resize(padded);
        mask_.resize(padded);
        const float *weight = reader.next_tensor(), *bias = reader.next_tensor();
        std::copy(weight, weight + width, weight_.begin());
        if (bias) std::copy(bias, bias + width, bias_.begin());
        std::fill(mask_.begin(), mask_.begin() + width, 1.0f);
    }

    void apply(const float* from, float* to) const {
        int64_t padded = weight_.head_size();
        float mean = 0;
        if (centered_) {
            Lanes sum{};
            for (int64_t i = 0; i < padded; i += LANES) sum += load(from + i);
            mean = horizontal_sum(sum) / width_;
        }
        Lanes squares{};
        for (int64_t i = 0; i < padded; i += LANES) {
            Lanes distance = (load(from + i) - mean) * load(&mask_[i]);  // the padding is no part of the vector
            squares += distance * distance;
        }
        float inverse_std = 1 / std::sqrt(horizontal_sum(squares) / width_ + epsilon_);
        for (int64_t i = 0; i < padded; i += LANES)
            store(to + i, (load(from + i) - mean) * inverse_std * load(&weight_[i]) + load(&bias_[i]));
    }

private:
    int64_t width_ = 0;
    bool centered_ = true;
    float epsilon_ = 0;
    std::vector<float> weight_, bias_, mask_;
};

// One block of the encoder (look, think) or of the decoder (look back, look across, think).
struct Block {
    Norm self_attention_norm, cross_attention_norm, feed_forward_norm;
    PackedLinear qkv, self_attention_output;
    PackedLinear cross_attention_q, cross_attention_kv, cross_attention_output;
    PackedLinear fc1, fc2;
};

// The encoder or the decoder: its tokens' vectors, its blocks, and the norm it ends with.
struct Stack {
    int64_t vocab_size, width, depth, heads, head_size, hidden;
    int64_t padded_head_size;  // numbers that a head occupies: its size, rounded up to whole registers
    int64_t attention_width;      // what all heads occupy side by side
    bool norm_first;    // x + f(norm(x)) (Xiong et al. 2020), or norm(x + f(x)) (Vaswani et al. 2017)
    const float* next_tensor;
    float scale;  // of the tokens' vectors: √width
    std::vector<Block> blocks;
    Norm final_norm;

    Stack(WeightReader& reader, Precision precision, int64_t memory_width) {
        vocab_size = reader.next_size(), width = reader.next_size(), depth = reader.next_size();
        heads = reader.next_size(), head_size = reader.next_size(), hidden = reader.next_size();
        norm_first = reader.next_size();
        bool centered = reader.next_size();
        padded_head_size = round_up(head_size, LANES), attention_width = heads * padded_head_size;
        next_tensor = reader.next_tensor();
        const float* sizes = reader.next_tensor();
        scale = sizes[0];
        float epsilon = sizes[1];
        auto norm = [&] { return Norm(reader, width, centered, epsilon); };
        auto layer = [&](int64_t columns, int64_t inputs) {
            const float *weight = reader.next_tensor(), *bias = reader.next_tensor();
            return PackedLinear(precision, weight, bias, columns, inputs);
        };
        for (int64_t i = 0; i < depth; i++) {
            Block block;
            block.self_attention_norm = norm();
            block.qkv = layer(3 * attention_width, width);
            block.self_attention_output = layer(width, attention_width);
            if (memory_width) {
                block.cross_attention_norm = norm();
                block.cross_attention_q = layer(attention_width, width);
                block.cross_attention_kv = layer(2 * attention_width, memory_width);
                block.cross_attention_output = layer(width, attention_width);
            }
            block.feed_forward_norm = norm();
            block.fc1 = layer(hidden, width);
            block.fc2 = layer(width, hidden);
            blocks.push_back(std::move(block));
        }
        if (norm_first) final_norm = norm();
    }
};

// What one thread works with for itself, or all threads together.
struct ThreadWorkspace {
    FloatMatrix stream, normalized, quantized;
    std::vector<float> scales, weights;
};

// The working space of a pass over some rows.
struct Workspace {
    std::vector<ThreadWorkspace> thread_workspaces;
    FloatMatrix projected, attention_output, sublayer_output, hidden;

    void resize(const Stack& stack, int64_t rows, int64_t max_length, int threads) {
        thread_workspaces.resize(threads);
        for (auto& place : thread_workspaces) {
            place.stream.resize(rows, stack.width);
            place.normalized.resize(rows, stack.width);
            place.quantized.resize(rows, std::max({stack.hidden, stack.attention_width, stack.width}));
            place.scales.resize(std::max<size_t>(place.scales.head_size(), rows));
            place.weights.resize(std::max<size_t>(place.weights.head_size(), round_up(max_length, LANES)));
        }
        projected.resize(rows, 3 * stack.attention_width);
        attention_output.resize(rows, stack.attention_width);
        sublayer_output.resize(rows, stack.width);
        hidden.resize(rows, stack.hidden);
    }
};

struct Model {
    Precision precision;
    Stack encoder, decoder;
    PackedLinear head;
    ThreadPool thread_pool;
    std::mutex run_mutex;  // a team does one thing at a time
    ObjectPool<AlignedBuffer> free_chunks{32};                       // of finished searches, at most 128 MB
    ObjectPool<Workspace> encoder_workspaces{2}, decoder_workspaces{2};
    std::atomic<int> reference_count{1};  // its owner, and every search that still reads its weights

    Model(WeightReader reader, int threads)
        : precision(Precision(reader.next_size())), encoder(reader, precision, 0),
          decoder(reader, precision, encoder.width), thread_pool(threads) {
        const float *weight = reader.next_tensor(), *bias = reader.next_tensor();
        head = PackedLinear(precision, weight, bias, decoder.vocab_size, decoder.width);
    }

    // Numbers that one token's keys and values occupy in one block, head after head: key, value. The odd register
    // at the end keeps tokens from falling on the same lines of the processor's caches.
    int64_t slot_size() const { return 2 * decoder.attention_width + LANES; }
};
