// A whole Transformer encoder-decoder for one purpose: to write target tokens, on a CPU, as fast as it can.
//
// `native_start` reads the source; `native_step` takes in tokens and gives the scores of the next ones, all
// in one call. It computes what models/seq2seq.py says, in the same order. What is different:
//
// - The past is append-only. Every token that was ever stepped gets a slot with its keys and values for
//   all blocks; a row's past is a list of slot numbers. Beams that change places, or share a past, only
//   copy lists of numbers.
// - The source is computed without its padding, and its keys and values are stored once a sentence.

#include "kept.hpp"
#include "pass.hpp"

namespace {

// One search: the source's keys and values, and the slots of every token stepped since.
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

    // Read the source: `tokens` is (rows, times), of which each row's first `lengths` are real. Gives false if there
    // is no such token or no such length.
    bool encode_source(const int64_t* tokens, const int64_t* lengths, int64_t rows, int64_t padded_length, const float* positions) {
        for (int64_t row = 0; row < rows; row++) {
            if (lengths[row] < 0 || lengths[row] > padded_length) return false;
            for (int64_t i = row * padded_length; i < row * padded_length + lengths[row]; i++)
                if (tokens[i] < 0 || tokens[i] >= model_.encoder.vocab_size) return false;
        }
        source_offsets_.assign(1, 0);
        for (int64_t row = 0; row < rows; row++) source_offsets_.push_back(source_offsets_.back() + lengths[row]);
        source_kv_ = AlignedBuffer(source_offsets_.back() * slot_bytes());
        source_addresses_.resize(source_offsets_.back());
        for (size_t i = 0; i < source_addresses_.size(); i++) source_addresses_[i] = source_kv_.floats() + i * model_.slot();
        Workspace workspace = model_.encoder_workspaces.acquire([] { return Workspace(); });
        for (int64_t row = 0; row < rows;) {  // some sentences at a time, so that what is worked on stays near
            int64_t end = row + 1;
            while (end < rows && source_offsets_[end + 1] - source_offsets_[row] <= MAX_ENCODED_TOKENS) end++;
            encode(tokens, padded_length, positions, row, end, workspace);
            row = end;
        }
        model_.encoder_workspaces.release(std::move(workspace));
        return true;
    }

    // Take in `new_tokens` tokens a row: they get slots, which are noted in `slot_table`. Gives what went wrong, or 0.
    int step(const int64_t* tokens, int64_t rows, int64_t new_tokens, int32_t* slot_table, float* scores,
             bool probabilities) {
        for (int64_t row = 0; row < rows; row++)
            if (past(slot_table, row).length + new_tokens > max_length_) return CACHE_FULL;
        for (int64_t i = 0; i < rows * new_tokens; i++)
            if (tokens[i] < 0 || tokens[i] >= model_.decoder.vocab_size) return NO_SUCH_TOKEN;
        if (rows * new_tokens == 0) return 0;
        // All memory is there before the first thread begins: what fails in a thread could not be caught.
        workspace_.resize(model_.decoder, rows * new_tokens, std::max(max_length_, longest_source()), model_.thread_pool.threads());
        partial_sums_.resize(probabilities ? ForwardPass::partial_sums(rows * new_tokens, model_.decoder.vocab_size) : 0);
        StepInput input{tokens, rows, new_tokens, {}, {}, {}};
        assign_slots(input, slot_table);
        model_.thread_pool.run([&](WorkShare share) { decode(input, share, scores); });
        return 0;
    }

    std::mutex run_mutex;

    static constexpr int CACHE_FULL = 1, NO_SUCH_TOKEN = 2, NO_MEMORY = 3;

private:
    static constexpr int64_t MAX_ENCODED_TOKENS = 256, CHUNK = 1 << 22;

    // A row of the table that the other side keeps: beams that move only permute such rows.
    struct SlotRow {
        int32_t &length, &source;  // how many tokens the row has taken in, and which sentence it writes about
        int32_t* slots;           // the slots of those tokens
    };
    SlotRow past(int32_t* slot_table, int64_t row) const {
        int32_t* start = slot_table + row * (2 + max_length_);
        return {start[0], start[1], start + 2};
    }

    struct StepInput {
        const int64_t* tokens;
        int64_t rows, count;
        std::vector<const float*> past;  // the places of every row's tokens, old and new, row after row
        std::vector<int64_t> offsets;     // where each row's places begin in `past`
        std::vector<int64_t> sources;    // which sentence each row writes about
        int64_t length(int64_t row) const { return offsets[row + 1] - offsets[row]; }
    };

    float* slot(int64_t number) {
        while (number >= int64_t(chunks_.size()) * chunk_slots_)
            chunks_.push_back(model_.free_chunks.acquire([&] { return AlignedBuffer(chunk_slots_ * slot_bytes()); }));
        return chunks_[number / chunk_slots_].floats() + number % chunk_slots_ * model_.slot();
    }

    int64_t slot_bytes() const { return model_.decoder.depth * model_.slot() * sizeof(float); }

    // Every new token gets a slot of its own; then the addresses of all slots of every row are looked up, once a step.
    void assign_slots(StepInput& input, int32_t* slot_table) {
        for (int64_t row = 0; row < input.rows; row++) {
            SlotRow of_row = past(slot_table, row);
            input.offsets.push_back(input.past.size());
            input.sources.push_back(of_row.source);
            for (int64_t i = 0; i < input.count; i++) of_row.slots[of_row.length++] = int32_t(used_slots_++);
            for (int64_t i = 0; i < of_row.length; i++) input.past.push_back(slot(of_row.slots[i]));
        }
        input.offsets.push_back(input.past.size());
    }

    int64_t longest_source() const {
        int64_t longest = 0;
        for (size_t i = 0; i + 1 < source_offsets_.size(); i++)
            longest = std::max(longest, source_offsets_[i + 1] - source_offsets_[i]);
        return longest;
    }

    // The encoder, for the real tokens of some sentences; their keys and values for every block of the decoder are
    // stored block after block: (block, token, head, key and value).
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
                    pass.attend(row, offset, {&projected[start - begin], end - start, key, key + stack.attention_width});
                });
                pass.linear_from_matrix(workspace.attention_output, block.self_attention_output);
                pass.add_residual(block.self_attention_norm);
                pass.feed_forward(block);
            }
            LinearInput memory = pass.quantize_stream(stack.final_norm);
            for (size_t i = 0; i < model_.decoder.blocks.size(); i++)
                pass.linear(model_.decoder.blocks[i].cross_attention_kv, memory,
                              source_kv_.floats() + (i * source_offsets_.back() + begin) * model_.slot(), model_.slot());
        });
    }

    // The decoder, for all new tokens.
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
            int64_t keys = block_number * chunk_slots_ * model_.slot();
            pass.linear_from_stream(block.self_attention_norm, block.qkv, workspace_.projected);
            pass.for_each_head(input.rows, [&](int64_t row, int64_t offset) { self_attention(pass, input, row, offset, keys); });
            pass.linear_from_matrix(workspace_.attention_output, block.self_attention_output);
            pass.add_residual(block.self_attention_norm);
            pass.linear_from_stream(block.cross_attention_norm, block.cross_attention_q, workspace_.projected);
            pass.for_each_head(input.rows * input.count, [&](int64_t i, int64_t offset) {
                int64_t source = input.sources[i / input.count], begin = source_offsets_[source];
                int64_t key = block_number * source_offsets_.back() * model_.slot() + 2 * offset;
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

    // One head of one row: its new keys and values go into their slots, then each new token looks at all up to itself.
    void self_attention(ForwardPass& pass, const StepInput& input, int64_t row, int64_t offset, int64_t keys) {
        const Stack& stack = pass.stack;
        int64_t before = input.length(row) - input.count;
        const float* const* past = input.past.data() + input.offsets[row];
        for (int64_t i = 0; i < input.count; i++) {
            const float* from = workspace_.projected.row(row * input.count + i) + offset;
            float* to = const_cast<float*>(past[before + i]) + keys + 2 * offset;
            std::memcpy(to, from + stack.attention_width, stack.padded_head_size * sizeof(float));
            std::memcpy(to + stack.padded_head_size, from + 2 * stack.attention_width, stack.padded_head_size * sizeof(float));
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

// What the other side calls: plain functions, plain numbers. Nothing is thrown across this border.

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
        return cache.release_model();
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
        return step->acquire();
    } catch (const std::exception&) {
        return BeamStep::NAN_SCORES;  // no memory; the plain twin will say so, or do better
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
