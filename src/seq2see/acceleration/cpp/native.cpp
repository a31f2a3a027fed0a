// A Transformer encoder-decoder for fast inference on a CPU.
//
// `native_start` encodes the source; `native_step` reads tokens and returns the logits of the next tokens, in
// one call. The computation and its order are those of models/seq2seq.py, with two differences:
//
// - The key-value cache is append-only. Every token gets a slot with its keys and values of all blocks; the
//   past of a row is a list of slot numbers. Reordering beams, or sharing a past among them, only copies lists
//   of numbers.
// - The source is encoded without its padding, and its keys and values are stored once for each sentence.

#include "beam_hypotheses.hpp"
#include "forward_pass.hpp"

namespace {

// The state of one search: the keys and values of the source, and the slots of all tokens read since.
class KVCache {
public:
    KVCache(Model& model, const float* positions, int64_t max_length)
        : model_(model), positions_(positions), max_length_(max_length),
          workspace_(model.decoder_workspaces.acquire([] { return Workspace(); })) {
        chunk_slots_ = std::max<int64_t>(1, CHUNK / slot_bytes());
    }

    ~KVCache() {
        for (auto& chunk : chunks_) model_.free_chunks.release(std::move(chunk));
        model_.decoder_workspaces.release(std::move(workspace_));
    }

    Model& model() { return model_; }

    // Encodes the source: `tokens` is (rows, padded_length); the first `lengths[row]` tokens of each row are valid.
    // Returns false if a token or a length is out of range.
    bool encode_source(const int64_t* tokens, const int64_t* lengths, int64_t rows, int64_t padded_length,
                       const float* positions) {
        for (int64_t row = 0; row < rows; row++) {
            if (lengths[row] < 0 || lengths[row] > padded_length) return false;
            for (int64_t i = row * padded_length; i < row * padded_length + lengths[row]; i++)
                if (tokens[i] < 0 || tokens[i] >= model_.encoder.vocab_size) return false;
        }
        source_offsets_.assign(1, 0);
        for (int64_t row = 0; row < rows; row++) source_offsets_.push_back(source_offsets_.back() + lengths[row]);
        source_kv_ = AlignedBuffer(source_offsets_.back() * slot_bytes());
        source_addresses_.resize(source_offsets_.back());
        for (size_t i = 0; i < source_addresses_.size(); i++)
            source_addresses_[i] = source_kv_.floats() + i * model_.slot_size();
        Workspace workspace = model_.encoder_workspaces.acquire([] { return Workspace(); });
        for (int64_t row = 0; row < rows;) {  // a few sentences at a time, so that their buffers stay in the cache
            int64_t end = row + 1;
            while (end < rows && source_offsets_[end + 1] - source_offsets_[row] <= MAX_ENCODED_TOKENS) end++;
            encode(tokens, padded_length, positions, row, end, workspace);
            row = end;
        }
        model_.encoder_workspaces.release(std::move(workspace));
        return true;
    }

    // Reads `new_tokens` tokens of each row and records their slots in `slot_table`. Returns 0 or an error code.
    int step(const int64_t* tokens, int64_t rows, int64_t new_tokens, int32_t* slot_table, float* scores,
             bool probabilities) {
        for (int64_t row = 0; row < rows; row++)
            if (slot_row(slot_table, row).length + new_tokens > max_length_) return CACHE_FULL;
        for (int64_t i = 0; i < rows * new_tokens; i++)
            if (tokens[i] < 0 || tokens[i] >= model_.decoder.vocab_size) return NO_SUCH_TOKEN;
        if (rows * new_tokens == 0) return 0;
        // All memory is allocated before the threads start: an exception in a worker could not be caught.
        workspace_.resize(model_.decoder, rows * new_tokens, std::max(max_length_, longest_source()),
                          model_.thread_pool.threads());
        int64_t sums = ForwardPass::partial_sums(rows * new_tokens, model_.decoder.vocab_size);
        partial_sums_.resize(probabilities ? sums : 0);
        StepInput input{tokens, rows, new_tokens, {}, {}, {}};
        assign_slots(input, slot_table);
        model_.thread_pool.run([&](WorkShare share) { decode(input, share, scores); });
        return 0;
    }

    std::mutex run_mutex;

    static constexpr int CACHE_FULL = 1, NO_SUCH_TOKEN = 2, NO_MEMORY = 3;

private:
    static constexpr int64_t MAX_ENCODED_TOKENS = 256, CHUNK = 1 << 22;

    // A row of the slot table, which Python owns: reordering beams permutes its rows.
    struct SlotRow {
        int32_t &length, &source;  // the number of cached tokens of the row, and the index of its source sentence
        int32_t* slots;            // the slots of those tokens
    };
    SlotRow slot_row(int32_t* slot_table, int64_t row) const {
        int32_t* entries = slot_table + row * (2 + max_length_);
        return {entries[0], entries[1], entries + 2};
    }

    struct StepInput {
        const int64_t* tokens;
        int64_t rows, count;
        std::vector<const float*> past;  // the addresses of the tokens of every row, old and new, row after row
        std::vector<int64_t> offsets;    // the start of each row in `past`
        std::vector<int64_t> sources;    // the source sentence of each row
        int64_t length(int64_t row) const { return offsets[row + 1] - offsets[row]; }
    };

    float* slot(int64_t number) {
        while (number >= int64_t(chunks_.size()) * chunk_slots_)
            chunks_.push_back(model_.free_chunks.acquire([&] { return AlignedBuffer(chunk_slots_ * slot_bytes()); }));
        return chunks_[number / chunk_slots_].floats() + number % chunk_slots_ * model_.slot_size();
    }

    int64_t slot_bytes() const { return model_.decoder.depth * model_.slot_size() * sizeof(float); }

    // Assigns a slot to every new token; then collects the addresses of all slots of every row, once in each step.
    void assign_slots(StepInput& input, int32_t* slot_table) {
        for (int64_t row = 0; row < input.rows; row++) {
            SlotRow entry = slot_row(slot_table, row);
            input.offsets.push_back(input.past.size());
            input.sources.push_back(entry.source);
            for (int64_t i = 0; i < input.count; i++) entry.slots[entry.length++] = int32_t(used_slots_++);
            for (int64_t i = 0; i < entry.length; i++) input.past.push_back(slot(entry.slots[i]));
        }
        input.offsets.push_back(input.past.size());
    }

    int64_t longest_source() const {
        int64_t longest = 0;
        for (size_t i = 0; i + 1 < source_offsets_.size(); i++)
            longest = std::max(longest, source_offsets_[i + 1] - source_offsets_[i]);
        return longest;
    }

    // Runs the encoder on the valid tokens of some sentences. Their keys and values for every block of the decoder
    // are stored as (block, token, head, key and value).
    void encode(const int64_t* tokens, int64_t padded_length, const float* positions, int64_t first_row, int64_t end_row,
                Workspace& workspace) {
        const Stack& stack = model_.encoder;
        int64_t begin = source_offsets_[first_row], rows = source_offsets_[end_row] - begin;
        if (rows == 0) return;
        std::vector<int64_t> sentence, time;
        for (int64_t row = first_row; row < end_row; row++)
            for (int64_t i = source_offsets_[row]; i < source_offsets_[row + 1]; i++)
                sentence.push_back(row), time.push_back(i - source_offsets_[row]);
        workspace.resize(stack, rows, longest_source(), model_.thread_pool.threads());
        std::vector<const float*> projected;
        for (int64_t row = 0; row < rows; row++) projected.push_back(workspace.projected.row(row));
        model_.thread_pool.run([&](WorkShare share) {
            ForwardPass pass(model_, stack, workspace, share, rows);
            pass.embed([&](int64_t row) { return tokens[sentence[row] * padded_length + time[row]]; },
                       [&](int64_t row) { return positions + time[row] * stack.width; });
            for (auto& block : stack.blocks) {
                pass.linear_from_stream(block.self_attention_norm, block.qkv, workspace.projected);
                pass.for_each_head(rows, [&](int64_t row, int64_t offset) {
                    int64_t start = source_offsets_[sentence[row]], end = source_offsets_[sentence[row] + 1];
                    int64_t key = stack.attention_width + offset;
                    pass.attend(row, offset,
                                {&projected[start - begin], end - start, key, key + stack.attention_width});
                });
                pass.linear_from_matrix(workspace.attention_output, block.self_attention_output);
                pass.add_residual(block.self_attention_norm);
                pass.feed_forward(block);
            }
            LinearInput encoder_output = pass.quantize_stream(stack.final_norm);
            for (size_t i = 0; i < model_.decoder.blocks.size(); i++)
                pass.linear(model_.decoder.blocks[i].cross_attention_kv, encoder_output,
                            source_kv_.floats() + (i * source_offsets_.back() + begin) * model_.slot_size(),
                            model_.slot_size());
        });
    }

    // Runs the decoder on all new tokens.
    void decode(const StepInput& input, WorkShare share, float* scores) {
        const Stack& stack = model_.decoder;
        ForwardPass pass(model_, stack, workspace_, share, input.rows * input.count);
        pass.embed([&](int64_t i) { return input.tokens[i]; },
                   [&](int64_t i) {
                       int64_t row = i / input.count, time = input.length(row) - input.count + i % input.count;
                       return positions_ + time * stack.width;
                   });
        for (int64_t block_number = 0; block_number < stack.depth; block_number++) {
            const Block& block = stack.blocks[block_number];
            int64_t keys = block_number * chunk_slots_ * model_.slot_size();
            pass.linear_from_stream(block.self_attention_norm, block.qkv, workspace_.projected);
            pass.for_each_head(input.rows, [&](int64_t row, int64_t offset) {
                self_attention(pass, input, row, offset, keys);
            });
            pass.linear_from_matrix(workspace_.attention_output, block.self_attention_output);
            pass.add_residual(block.self_attention_norm);
            pass.linear_from_stream(block.cross_attention_norm, block.cross_attention_q, workspace_.projected);
            pass.for_each_head(input.rows * input.count, [&](int64_t i, int64_t offset) {
                int64_t source = input.sources[i / input.count], begin = source_offsets_[source];
                int64_t key = block_number * source_offsets_.back() * model_.slot_size() + 2 * offset;
                int64_t count = source_offsets_[source + 1] - begin;
                pass.attend(i, offset, {source_addresses_.data() + begin, count, key, key + stack.padded_head_size});
            });
            pass.linear_from_matrix(workspace_.attention_output, block.cross_attention_output);
            pass.add_residual(block.cross_attention_norm);
            pass.feed_forward(block);
        }
        pass.linear(model_.head, pass.quantize_stream(stack.final_norm), scores, stack.vocab_size);
        if (!partial_sums_.empty()) pass.log_softmax(scores, stack.vocab_size, partial_sums_.data());
    }

    // Causal self-attention of one head of one row: stores the new keys and values in their slots, then computes the
    // attention of each new token over all tokens up to itself.
    void self_attention(ForwardPass& pass, const StepInput& input, int64_t row, int64_t offset, int64_t keys) {
        const Stack& stack = pass.stack;
        int64_t before = input.length(row) - input.count;
        const float* const* past = input.past.data() + input.offsets[row];
        for (int64_t i = 0; i < input.count; i++) {
            const float* from = workspace_.projected.row(row * input.count + i) + offset;
            float* to = const_cast<float*>(past[before + i]) + keys + 2 * offset;
            std::memcpy(to, from + stack.attention_width, stack.padded_head_size * sizeof(float));
            std::memcpy(to + stack.padded_head_size, from + 2 * stack.attention_width,
                        stack.padded_head_size * sizeof(float));
        }
        int64_t key = keys + 2 * offset;
        for (int64_t i = 0; i < input.count; i++)
            pass.attend(row * input.count + i, offset, {past, before + i + 1, key, key + stack.padded_head_size});
    }

    Model& model_;
    const float* positions_;
    const int64_t max_length_;
    int64_t chunk_slots_ = 1, used_slots_ = 0;
    std::vector<AlignedBuffer> chunks_;
    AlignedBuffer source_kv_;
    std::vector<const float*> source_addresses_;
    std::vector<int64_t> source_offsets_{0};
    Workspace workspace_;
    std::vector<float> partial_sums_;
};

void release_model(Model* model) {
    if (--model->reference_count == 0) delete model;
}

}  // namespace

// The C interface that native.py and fast_search.py call. No exception leaves these functions.

extern "C" {

void* native_model(const int64_t* sizes, const float* const* tensors, int64_t threads) {
    try {
        return new Model(WeightReader{sizes, tensors}, int(threads));
    } catch (const std::exception&) {
        return nullptr;
    }
}

void native_free_model(void* model) { release_model(static_cast<Model*>(model)); }

void* native_start(void* model_address, const int64_t* tokens, const int64_t* lengths, const int64_t* sizes,
                   const float* source_positions, const float* target_positions) {
    Model& model = *static_cast<Model*>(model_address);
    int64_t rows = sizes[0], padded_length = sizes[1], max_length = sizes[2];
    try {
        std::unique_lock<std::mutex> guard(model.run_mutex, std::defer_lock);
        if (model.thread_pool.threads() > 1) guard.lock();
        auto cache = std::make_unique<KVCache>(model, target_positions, max_length);
        if (!cache->encode_source(tokens, lengths, rows, padded_length, source_positions)) return nullptr;
        model.reference_count++;
        return cache.release();
    } catch (const std::exception&) {
        return nullptr;
    }
}

void native_free_cache(void* cache_address) {
    KVCache* cache = static_cast<KVCache*>(cache_address);
    Model* model = &cache->model();
    delete cache;
    release_model(model);
}

int native_step(void* cache_address, const int64_t* tokens, int64_t rows, int64_t new_tokens, int32_t* slot_table,
                float* scores, int64_t probabilities) {
    KVCache& cache = *static_cast<KVCache*>(cache_address);
    try {
        std::lock_guard<std::mutex> guard_cache(cache.run_mutex);
        std::unique_lock<std::mutex> guard(cache.model().run_mutex, std::defer_lock);
        if (cache.model().thread_pool.threads() > 1) guard.lock();
        return cache.step(tokens, rows, new_tokens, slot_table, scores, probabilities);
    } catch (const std::exception&) {
        return KVCache::NO_MEMORY;
    }
}

int native_beam_step(const BeamStep* step) {
    try {
        return step->run();
    } catch (const std::exception&) {
        return BeamStep::NAN_SCORES;  // not enough memory; the PyTorch version is then tried
    }
}

int native_add_finished(const AddFinished* add) {
    try {
        return add->run();
    } catch (const std::exception&) {
        return BeamStep::NAN_SCORES;
    }
}

}  // extern "C"
