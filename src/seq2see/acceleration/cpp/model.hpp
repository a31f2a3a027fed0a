// The weights of a Transformer: norms, linear layers and embeddings, in the order in which they are used.

#pragma once

#include <memory>

#include "linear.hpp"

// Reads the sizes and the tensors of a model in the order in which native_weights.py lists them.
struct WeightReader {
    const int64_t* sizes;
    const float* const* tensors;
    int64_t next_size() { return *sizes++; }
    const float* next_tensor() { return *tensors++; }
};

// LayerNorm (Ba et al. 2016, eq. 4), or RMSNorm (Zhang & Sennrich 2019), which does not subtract the mean.
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
        int64_t padded = weight_.size();
        float mean = 0;
        if (centered_) {
            Lanes sum{};
            for (int64_t i = 0; i < padded; i += LANES) sum += load(from + i);
            mean = horizontal_sum(sum) / width_;
        }
        Lanes squares{};
        for (int64_t i = 0; i < padded; i += LANES) {
            Lanes deviation = (load(from + i) - mean) * load(&mask_[i]);  // 0 in the padding
            squares += deviation * deviation;
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

// One block of the encoder (self-attention, feed-forward) or of the decoder (self-attention, cross-attention,
// feed-forward).
struct Block {
    Norm self_attention_norm, cross_attention_norm, feed_forward_norm;
    PackedLinear qkv, self_attention_output;
    PackedLinear cross_attention_q, cross_attention_kv, cross_attention_output;
    PackedLinear fc1, fc2;
};

// The encoder or the decoder: token embeddings, blocks, and the final norm.
struct Stack {
    int64_t vocab_size, width, depth, heads, head_size, hidden;
    int64_t padded_head_size;  // the head size rounded up to whole registers
    int64_t attention_width;   // the padded heads together
    bool norm_first;  // pre-norm x + f(norm(x)) (Xiong et al. 2020), or post-norm norm(x + f(x)) (Vaswani et al. 2017)
    const float* embeddings;
    float scale;  // of the embeddings: √width
    std::vector<Block> blocks;
    Norm final_norm;

    Stack(WeightReader& reader, Precision precision, int64_t memory_width) {
        vocab_size = reader.next_size(), width = reader.next_size(), depth = reader.next_size();
        heads = reader.next_size(), head_size = reader.next_size(), hidden = reader.next_size();
        norm_first = reader.next_size();
        bool centered = reader.next_size();
        padded_head_size = round_up(head_size, LANES), attention_width = heads * padded_head_size;
        embeddings = reader.next_tensor();
        const float* constants = reader.next_tensor();
        scale = constants[0];
        float epsilon = constants[1];
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

// The buffers of one thread, or of all threads together.
struct ThreadWorkspace {
    FloatMatrix stream, normalized, quantized;
    std::vector<float> scales, weights;
};

// The buffers of a forward pass over some rows.
struct Workspace {
    std::vector<ThreadWorkspace> thread_workspaces;
    FloatMatrix projected, attention_output, sublayer_output, hidden;

    void resize(const Stack& stack, int64_t rows, int64_t max_length, int threads) {
        thread_workspaces.resize(threads);
        for (auto& each : thread_workspaces) {
            each.stream.resize(rows, stack.width);
            each.normalized.resize(rows, stack.width);
            each.quantized.resize(rows, std::max({stack.hidden, stack.attention_width, stack.width}));
            each.scales.resize(std::max<size_t>(each.scales.size(), rows));
            each.weights.resize(std::max<size_t>(each.weights.size(), round_up(max_length, LANES)));
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
    std::mutex run_mutex;                       // the thread pool runs one function at a time
    ObjectPool<AlignedBuffer> free_chunks{32};  // chunks of finished searches, at most 128 MB
    ObjectPool<Workspace> encoder_workspaces{2}, decoder_workspaces{2};
    std::atomic<int> reference_count{1};  // the owner, and every search that still reads the weights

    Model(WeightReader reader, int threads)
        : precision(Precision(reader.next_size())), encoder(reader, precision, 0),
          decoder(reader, precision, encoder.width), thread_pool(threads) {
        const float *weight = reader.next_tensor(), *bias = reader.next_tensor();
        head = PackedLinear(precision, weight, bias, decoder.vocab_size, decoder.width);
    }

    // The number of floats of one token's keys and values in one block; for each head: key, value. The additional
    // register at the end prevents that tokens map to the same lines of the processor's caches.
    int64_t slot_size() const { return 2 * decoder.attention_width + LANES; }
};
