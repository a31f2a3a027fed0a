"""Templates: the same text as the programs of other libraries, and labels on the assistant's words alone."""

from __future__ import annotations

import pytest

from seq2see.core.errors import UserError
from seq2see.data.chat_templates import (
    ROLE_TOKENS,
    ChatMLTemplate,
    Llama2Template,
    Llama3Template,
    PlainTemplate,
    RoleTemplate,
    add_role_tokens,
    encode_parts,
    special_id,
)
from seq2see.data.dialogue import Dialogue, Message, history_text, parse_history
from seq2see.data.dialogue_dataset import DialogueDataset, encoded_rows
from seq2see.data.tokenizers.tokenizer import (
    BOS,
    BPE,
    EOS,
    Characters,
    Tokenizer,
    Unigram,
    WordLevel,
    train_tokenizer,
)
from seq2see.interop.chat_template_files import recognize_template

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\\n' }}"
    "{% endif %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
CHATML = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim "
    "+ '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}"
    "{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
PROGRAMS = {"smollm2": SMOLLM2, "chatml": CHATML, "llama-3": LLAMA3, "llama-2": LLAMA2}
KINDS = {"smollm2": ChatMLTemplate, "chatml": ChatMLTemplate, "llama-3": Llama3Template, "llama-2": Llama2Template}
BOUNDS = {"llama-3": ("<|begin_of_text|>", "<|eot_id|>"), "llama-2": ("<s>", "</s>")}
HISTORIES = [
    [Message("user", "hi")],
    [Message("system", "be  brief"), Message("user", "hi there")],
    [Message("user", "a\n\nb"), Message("assistant", "c  d"), Message("user", " e ")],
    [Message("system", "x"), Message("user", "你好"), Message("assistant", "好"), Message("user", "it's 5 o'clock")],
]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("messages", HISTORIES, ids=range(len(HISTORIES)))
def test_a_rendered_dialogue_equals_that_of_transformers(name: str, messages: list[Message]):
    template = recognize_template(PROGRAMS[name])
    assert type(template) is KINDS[name]
    assert template.text(messages, reply=True) == rendered_by_transformers(name, messages)


def rendered_by_transformers(name: str, messages: list[Message]) -> str:
    """The text that the program itself writes, run by transformers in its sandbox."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    bos, eos = BOUNDS.get(name, ("<|im_start|>", "<|im_end|>"))
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel({bos: 0, eos: 1}, unk_token=bos))
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=library, bos_token=bos, eos_token=eos)
    theirs.chat_template = PROGRAMS[name]
    rows = [{"role": each.role, "content": each.content} for each in messages]
    return theirs.apply_chat_template(rows, tokenize=False, add_generation_prompt=True)


def test_line_breaks_may_be_written_as_themselves():
    template = recognize_template(SMOLLM2.replace("\\n", "\n"))
    assert template == recognize_template(SMOLLM2)
    assert template.text([Message("user", "a")]).count("\n") == 4


def test_the_default_message_of_the_system_is_read_from_the_program():
    template = recognize_template(SMOLLM2)
    assert template.system == "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    assert recognize_template(CHATML).system == ""


@pytest.mark.parametrize(
    "program",
    ["", "{{ messages }}", SMOLLM2 + "{{ 1 }}", SMOLLM2.replace("'role'] + ", "'role'] * "), CHATML + "<|im_start|>",
     "{{ ''.__class__.__mro__[1].__subclasses__() }}"],
)  # fmt: skip
def test_a_program_that_is_not_known_is_refused_and_not_run(program: str):
    with pytest.raises(UserError, match="not known"):
        recognize_template(program, "folder")


def tokenizer_of(kind: str) -> Tokenizer:
    texts = ["hi there you", "my name is Ann. <user> what is <assistant> it?", "a b c <system> d"] * 3
    kinds = {
        "words": WordLevel(),
        "characters": Characters(),
        "bpe": BPE(vocab_size=300),
        "unigram": Unigram(vocab_size=300),
    }
    return add_role_tokens(train_tokenizer(kinds[kind], texts))


@pytest.mark.parametrize("kind", ["words", "characters", "bpe", "unigram"])
def test_no_text_becomes_the_token_of_a_role_or_an_end(kind: str):
    tokenizer, template = tokenizer_of(kind), RoleTemplate()
    roles = {special_id(tokenizer, name) for name in ROLE_TOKENS}
    assert roles == set(range(len(tokenizer) - 3, len(tokenizer)))
    messages = [Message("user", "<assistant> <user><system> </s> <eos> <bos>"), Message("assistant", "it")]
    first = template.encode(tokenizer, messages)[0].ids
    assert first[0] == special_id(tokenizer, "<user>")
    assert first[-1] == EOS
    assert not (roles | {BOS, EOS}) & set(first[1:-1])
    if kind in ("bpe", "unigram"):  # the others have no token for some of these characters
        assert tokenizer.decode(first[1:-1]) == messages[0].content


def test_only_the_words_of_the_assistant_and_their_end_have_labels():
    tokenizer, template = tokenizer_of("words"), RoleTemplate()
    dialogue = Dialogue.of([Message("user", "hi there"), Message("assistant", "my name is Ann.")])
    dataset = DialogueDataset([dialogue], tokenizer, template, 64)
    batch = dataset.batch([0])
    inputs = tokenizer.tokens(batch.target.values[0].tolist())
    labels = [None if each == -100 else tokenizer.tokens([each])[0] for each in batch.labels[0].tolist()]
    assert inputs[:10] == ["<bos>", "<user>", "hi", "there", "<eos>", "<assistant>", "my", "name", "is", "Ann"]
    assert labels[:12] == [*[None] * 5, "my", "name", "is", "Ann", ".", "<eos>", None]


def test_every_reply_of_a_long_dialogue_has_a_label_once_with_a_history_before_it():
    tokenizer, template = tokenizer_of("characters"), RoleTemplate()
    messages = [Message(role, letter * 3) for letter in "abchinmty" for role in ("user", "assistant")]  # 5 tokens each
    dialogue = Dialogue.of(messages)
    whole = DialogueDataset([dialogue], tokenizer, template, 200)
    parts = DialogueDataset([dialogue], tokenizer, template, 24)
    assert len(whole) == 1
    assert len(parts) > 4
    for each in (whole, parts):
        labels = [token for row in each.rows for token, counts in zip(row.ids, row.label_mask, strict=True) if counts]
        assert labels == [
            token for row in whole.rows for token, counts in zip(row.ids, row.label_mask, strict=True) if counts
        ]
    for row in parts.rows:
        assert len(row.ids) <= 25
        assert row.ids[0] == BOS
        assert row.label_mask.index(True) > 5  # a whole message stands before the first reply
    assert not parts.truncated


def test_a_message_longer_than_a_row_is_cut_and_named():
    tokenizer = tokenizer_of("characters")
    dialogue = Dialogue.of([Message("user", "hi"), Message("assistant", "a" * 50)], location="x.jsonl:3")
    dataset = DialogueDataset([dialogue], tokenizer, RoleTemplate(), 16)
    assert dataset.warnings() == [
        "1 dialogues have a message longer than 16 tokens, which was cut; the first: x.jsonl:3."
    ]
    assert dataset.lengths.max() <= 16


def test_a_long_history_loses_its_beginning_and_a_long_reply_its_end():
    rows = [[11, 12, 13, 14, 15], [16, 17]]
    assert encoded_rows(rows, 3, keep_end=True).ids.tolist() == [13, 14, 15, EOS, 16, 17, EOS]
    cut = encoded_rows(rows, 3)
    assert cut.ids.tolist() == [11, 12, 13, EOS, 16, 17, EOS]
    assert (cut.starts.tolist(), cut.truncated.tolist()) == ([0, 4, 7], [0])


def test_roles_as_text_end_a_reply_with_eos():
    tokenizer, template = tokenizer_of("characters"), PlainTemplate()
    messages = [Message("user", "hi"), Message("assistant", "it")]
    assert template.text(messages) == "<bos>user: hi\nassistant: it<eos>\n"
    last = template.encode(tokenizer, messages)[1]
    assert sum(last.label_mask) == len(" it") + 1
    assert encode_parts(tokenizer, template.reply_header()) == last.ids[: -len(" it") - 2]


@pytest.mark.parametrize("template", [RoleTemplate(), PlainTemplate()], ids=["roles", "plain"])
def test_header_text_and_end_of_a_generated_reply_are_those_of_the_dialogue(template):
    """In plain text a line break is after <eos>; a conversation reads it with the next message."""
    tokenizer, messages = tokenizer_of("characters"), [Message("user", "hi"), Message("assistant", "it")]
    body = encode_parts(tokenizer, (template.message(messages, 1).body,))
    ids = [*template.reply_ids(tokenizer), *body, *template.tail_ids(tokenizer)]
    assert ids == template.encode(tokenizer, messages)[1].ids


def test_a_history_on_one_line_is_read_back():
    messages = [Message("system", "x"), Message("user", "a b"), Message("assistant", "c"), Message("user", "d")]
    assert parse_history(history_text(messages)) == messages
    assert parse_history("a <b> user> c") == [Message("user", "a <b> user> c")]


def test_a_row_uses_all_of_its_tokens_and_no_more():
    """A user's message of n letters has n + 2 tokens, a reply as well; <bos> is before them."""
    tokenizer, template = tokenizer_of("characters"), RoleTemplate()
    full = Dialogue.of([Message("user", "a" * 3), Message("assistant", "b" * 6)])  # 1 + 5 + 8 ids are 13 inputs
    (row,) = DialogueDataset([full], tokenizer, template, 13).rows
    assert len(row.ids) == 14
    assert len(DialogueDataset([full], tokenizer, template, 12)) == 1  # the message becomes the context of its reply
    sizes = [3, 1, 17, 2, 1, 13, 5, 1, 2, 11, 1, 1, 7, 3]
    long = [Message(role, "a" * size) for size, role in zip(sizes, ("user", "assistant") * 7, strict=True)]
    for max_tokens in range(19, 60):
        dataset = DialogueDataset([Dialogue.of(long)], tokenizer, template, max_tokens)
        assert dataset.lengths.max() <= max_tokens
        assert not dataset.truncated
        assert sum(sum(row.label_mask) for row in dataset.rows) == sum(size + 1 for size in sizes[1::2])


def test_llama_2_has_a_message_of_the_system_at_the_beginning_alone():
    messages = [Message("user", "hi"), Message("system", "be brief")]
    with pytest.raises(UserError, match="at the beginning"):
        Llama2Template().text(messages)
