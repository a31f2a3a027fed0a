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
class Store {
public:
    Store(Model& model, const float* positions, int64_t room)
        : model_(model), positions_(positions), room_(room),
          buffers_(model.writing_space.take([] { return Buffers(); })) {
        chunk_slots_ = std::max<int64_t>(1, CHUNK / slot_bytes());
    }

    ~Store() {
        for (auto& chunk : chunks_) model_.chunks.give(std::move(chunk));
        model_.writing_space.give(std::move(buffers_));
    }

    Model& model() { return model_; }

    // Read the source: `tokens` is (rows, times), of which each row's first `lengths` are real. Gives false if there
    // is no such token or no such length.
    bool read(const int64_t* tokens, const int64_t* lengths, int64_t rows, int64_t times, const float* positions) {
        for (int64_t row = 0; row < rows; row++) {
            if (lengths[row] < 0 || lengths[row] > times) return false;
            for (int64_t i = row * times; i < row * times + lengths[row]; i++)
                if (tokens[i] < 0 || tokens[i] >= model_.encoder.vocabulary) return false;
        }
        source_begins_.assign(1, 0);
        for (int64_t row = 0; row < rows; row++) source_begins_.push_back(source_begins_.back() + lengths[row]);
        memory_ = Memory(source_begins_.back() * slot_bytes());
        source_places_.resize(source_begins_.back());
        for (size_t i = 0; i < source_places_.size(); i++) source_places_[i] = memory_.floats() + i * model_.slot();
        Buffers buffers = model_.reading_space.take([] { return Buffers(); });
        for (int64_t row = 0; row < rows;) {  // some sentences at a time, so that what is worked on stays near
            int64_t end = row + 1;
            while (end < rows && source_begins_[end + 1] - source_begins_[row] <= AT_ONCE) end++;
            encode(tokens, times, positions, row, end, buffers);
            row = end;
        }
        model_.reading_space.give(std::move(buffers));
        return true;
    }

    // Take in `new_tokens` tokens a row: they get slots, which are noted in `pasts`. Gives what went wrong, or 0.
    int step(const int64_t* tokens, int64_t rows, int64_t new_tokens, int32_t* pasts, float* scores,
             bool probabilities) {
        for (int64_t row = 0; row < rows; row++)
            if (past(pasts, row).filled + new_tokens > room_) return NO_ROOM;
        for (int64_t i = 0; i < rows * new_tokens; i++)
            if (tokens[i] < 0 || tokens[i] >= model_.decoder.vocabulary) return NO_SUCH_TOKEN;
        if (rows * new_tokens == 0) return 0;
        // All memory is there before the first thread begins: what fails in a thread could not be caught.
        buffers_.fit(model_.decoder, rows * new_tokens, std::max(room_, longest_source()), model_.team.threads());
        partial_.resize(probabilities ? Pass::partial_sums(rows * new_tokens, model_.decoder.vocabulary) : 0);
        Steps steps{tokens, rows, new_tokens, {}, {}, {}};
        list_places(steps, pasts);
        model_.team.run([&](Share share) { walk(steps, share, scores); });
        return 0;
    }

    std::mutex working;

    static constexpr int NO_ROOM = 1, NO_SUCH_TOKEN = 2, NO_MEMORY = 3;

private:
    static constexpr int64_t AT_ONCE = 256, CHUNK = 1 << 22;

    // A row of the table that the other side keeps: beams that move only permute such rows.
    struct Past {
        int32_t &filled, &source;  // how many tokens the row has taken in, and which sentence it writes about
        int32_t* places;           // the slots of those tokens
    };
    Past past(int32_t* pasts, int64_t row) const {
        int32_t* start = pasts + row * (2 + room_);
        return {start[0], start[1], start + 2};
    }

    struct Steps {
        const int64_t* tokens;
        int64_t rows, count;
        std::vector<const float*> past;  // the places of every row's tokens, old and new, row after row
        std::vector<int64_t> begins;     // where each row's places begin in `past`
        std::vector<int64_t> sources;    // which sentence each row writes about
        int64_t length(int64_t row) const { return begins[row + 1] - begins[row]; }
    };

    float* slot(int64_t number) {
        while (number >= int64_t(chunks_.size()) * chunk_slots_)
            chunks_.push_back(model_.chunks.take([&] { return Memory(chunk_slots_ * slot_bytes()); }));
        return chunks_[number / chunk_slots_].floats() + number % chunk_slots_ * model_.slot();
    }

    int64_t slot_bytes() const { return model_.decoder.depth * model_.slot() * sizeof(float); }

    // Every new token gets a slot of its own; then the addresses of all slots of every row are looked up, once a step.
    void list_places(Steps& steps, int32_t* pasts) {
        for (int64_t row = 0; row < steps.rows; row++) {
            Past of_row = past(pasts, row);
            steps.begins.push_back(steps.past.size());
            steps.sources.push_back(of_row.source);
            for (int64_t i = 0; i < steps.count; i++) of_row.places[of_row.filled++] = int32_t(used_++);
            for (int64_t i = 0; i < of_row.filled; i++) steps.past.push_back(slot(of_row.places[i]));
        }
        steps.begins.push_back(steps.past.size());
    }

    int64_t longest_source() const {
        int64_t longest = 0;
        for (size_t i = 0; i + 1 < source_begins_.size(); i++)
            longest = std::max(longest, source_begins_[i + 1] - source_begins_[i]);
        return longest;
    }

    // The encoder, for the real tokens of some sentences; their keys and values for every block of the decoder are
    // stored block after block: (block, token, head, key and value).
    void encode(const int64_t* tokens, int64_t times, const float* positions, int64_t first_row, int64_t end_row,
                Buffers& buffers) {
        const Half& half = model_.encoder;
        int64_t begin = source_begins_[first_row], rows = source_begins_[end_row] - begin;
        if (rows == 0) return;
        std::vector<int64_t> sentence, time;
        for (int64_t row = first_row; row < end_row; row++)
            for (int64_t i = source_begins_[row]; i < source_begins_[row + 1]; i++)
                sentence.push_back(row), time.push_back(i - source_begins_[row]);
        buffers.fit(half, rows, longest_source(), model_.team.threads());
        std::vector<const float*> projected;
        for (int64_t row = 0; row < rows; row++) projected.push_back(buffers.projected.row(row));
        model_.team.run([&](Share share) {
            Pass pass(model_, half, buffers, share, rows);
            pass.embed([&](int64_t row) { return tokens[sentence[row] * times + time[row]]; },
                       [&](int64_t row) { return positions + time[row] * half.width; });
            for (auto& block : half.blocks) {
                pass.multiply_stream(block.around_look, block.queries_keys_values, buffers.projected);
                pass.look(rows, [&](int64_t row, int64_t offset) {
                    int64_t start = source_begins_[sentence[row]], end = source_begins_[sentence[row] + 1];
                    int64_t key = half.inner + offset;
                    pass.attend(row, offset, {&projected[start - begin], end - start, key, key + half.inner});
                });
                pass.multiply_table(buffers.found, block.look_output);
                pass.add_answer(block.around_look);
                pass.think(block);
            }
            Rows memory = pass.encode_stream(half.ending);
            for (size_t i = 0; i < model_.decoder.blocks.size(); i++)
                pass.multiply(model_.decoder.blocks[i].keys_values, memory,
                              memory_.floats() + (i * source_begins_.back() + begin) * model_.slot(), model_.slot());
        });
    }

    // The decoder, for all new tokens.
    void walk(const Steps& steps, Share share, float* scores) {
        const Half& half = model_.decoder;
        Pass pass(model_, half, buffers_, share, steps.rows * steps.count);
        pass.embed([&](int64_t i) { return steps.tokens[i]; },
                   [&](int64_t i) {
                       int64_t row = i / steps.count, time = steps.length(row) - steps.count + i % steps.count;
                       return positions_ + time * half.width;
                   });
        for (int64_t block_number = 0; block_number < half.depth; block_number++) {
            const Block& block = half.blocks[block_number];
            int64_t keys = block_number * chunk_slots_ * model_.slot();
            pass.multiply_stream(block.around_look, block.queries_keys_values, buffers_.projected);
            pass.look(steps.rows, [&](int64_t row, int64_t offset) { look_back(pass, steps, row, offset, keys); });
            pass.multiply_table(buffers_.found, block.look_output);
            pass.add_answer(block.around_look);
            pass.multiply_stream(block.around_across, block.queries, buffers_.projected);
            pass.look(steps.rows * steps.count, [&](int64_t i, int64_t offset) {
                int64_t source = steps.sources[i / steps.count], begin = source_begins_[source];
                int64_t key = block_number * source_begins_.back() * model_.slot() + 2 * offset;
                int64_t count = source_begins_[source + 1] - begin;
                pass.attend(i, offset, {source_places_.data() + begin, count, key, key + half.head_room});
            });
            pass.multiply_table(buffers_.found, block.across_output);
            pass.add_answer(block.around_across);
            pass.think(block);
        }
        pass.multiply(model_.head, pass.encode_stream(half.ending), scores, half.vocabulary);
        if (!partial_.empty()) pass.log_softmax(scores, half.vocabulary, partial_.data());
    }

    // One head of one row: its new keys and values go into their slots, then each new token looks at all up to itself.
    void look_back(Pass& pass, const Steps& steps, int64_t row, int64_t offset, int64_t keys) {
        const Half& half = pass.half;
        int64_t before = steps.length(row) - steps.count;
        const float* const* past = steps.past.data() + steps.begins[row];
        for (int64_t i = 0; i < steps.count; i++) {
            const float* from = buffers_.projected.row(row * steps.count + i) + offset;
            float* to = const_cast<float*>(past[before + i]) + keys + 2 * offset;
            std::memcpy(to, from + half.inner, half.head_room * sizeof(float));
            std::memcpy(to + half.head_room, from + 2 * half.inner, half.head_room * sizeof(float));
        }
        int64_t key = keys + 2 * offset;
        for (int64_t i = 0; i < steps.count; i++)
            pass.attend(row * steps.count + i, offset, {past, before + i + 1, key, key + half.head_room});
    }

    Model& model_;
    const float* positions_;
    const int64_t room_;
    int64_t chunk_slots_ = 1, used_ = 0;
    std::vector<Memory> chunks_;
    Memory memory_;
    std::vector<const float*> source_places_;
    std::vector<int64_t> source_begins_{0};
    Buffers buffers_;
    std::vector<float> partial_;
};

void release(Model* model) {
    if (--model->holders == 0) delete model;
}

}  // namespace

// What the other side calls: plain functions, plain numbers. Nothing is thrown across this border.

extern "C" {

void* native_model(const int64_t* numbers, const float* const* tables, int64_t threads) {
    try {
        return new Model(Reader{numbers, tables}, int(threads));
    } catch (const std::exception&) {
        return nullptr;
    }
}

void native_forget_model(void* model) { release(static_cast<Model*>(model)); }

void* native_start(void* model_address, const int64_t* tokens, const int64_t* lengths, const int64_t* sizes,
                   const float* source_positions, const float* target_positions) {
    Model& model = *static_cast<Model*>(model_address);
    int64_t rows = sizes[0], times = sizes[1], room = sizes[2];
    try {
        std::unique_lock<std::mutex> guard(model.working, std::defer_lock);
        if (model.team.threads() > 1) guard.lock();
        auto store = std::make_unique<Store>(model, target_positions, room);
        if (!store->read(tokens, lengths, rows, times, source_positions)) return nullptr;
        model.holders++;
        return store.release();
    } catch (const std::exception&) {
        return nullptr;
    }
}

void native_forget_store(void* store_address) {
    Store* store = static_cast<Store*>(store_address);
    Model* model = &store->model();
    delete store;
    release(model);
}

int native_step(void* store_address, const int64_t* tokens, int64_t rows, int64_t new_tokens, int32_t* pasts,
                float* scores, int64_t probabilities) {
    Store& store = *static_cast<Store*>(store_address);
    try {
        std::lock_guard<std::mutex> alone(store.working);
        std::unique_lock<std::mutex> guard(store.model().working, std::defer_lock);
        if (store.model().team.threads() > 1) guard.lock();
        return store.step(tokens, rows, new_tokens, pasts, scores, probabilities);
    } catch (const std::exception&) {
        return Store::NO_MEMORY;
    }
}

int native_turn(const Turn* turn) {
    try {
        return turn->take();
    } catch (const std::exception&) {
        return Turn::NOT_NUMBERS;  // no memory; the plain twin will say so, or do better
    }
}

int native_keep(const Keeping* keeping) {
    try {
        return keeping->keep();
    } catch (const std::exception&) {
        return Turn::NOT_NUMBERS;
    }
}

}  // extern "C"
