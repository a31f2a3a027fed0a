"""The claims of the course notes, in their order and in their words.

`EXPERIMENTS` names the file of each experiment. A claim without one has a line in `UNTESTED` with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from seq2see.core.errors import unknown_name

NOTES = (
    "Vision Transformer: Demystify and Build from Scratch",
    "Task 3.1 – 3.3: Vision Transformer",
    "Transformer：Attention 机制",
    "动手学深度学习 —— 李沐",
    "Datawhale 学习活动 fun-transformer task1",
)
"""The titles of the five course notes."""


@dataclass(frozen=True)
class Claim:
    """One sentence of the notes."""

    id: str
    name: str
    note: int
    """The index of the notes in `NOTES`."""
    quote: str
    """The words of the notes; empty if the notes only imply the claim."""
    english: str


CLAIMS = (
    Claim("C01", "closed-form", 3, "从现在开始所学习的唯一具有显示解的模型", "linear regression is the only model met that has a closed form"),
    Claim("C02", "sgd-reaches-closed-form", 3, "算法在实际上只能采用小批量随机梯度下降", "in practice, minibatch SGD takes the place of the closed form: it reaches the same weights"),
    Claim("C03", "batch-and-learning-rate", 3, "batch size 扩大几倍，lr 就该扩大几倍", "if the batch becomes k times larger, so should the learning rate"),
    Claim("C04", "mean-and-sum", 3, "如果我们将 `reduction` 设置为 `mean` 那么 `lr` 自然应该调大一些", "a mean loss needs a larger learning rate than a summed loss"),
    Claim("C05", "forward-and-reverse-mode", 3, "二者相似点在于内存复杂度，都需要保存计算图中每一个节点的值也即 O(n)", "forward and reverse mode both need memory for every node, O(n); reverse mode is O(n) for the graph, forward mode O(n) for each node"),
    Claim("C06", "zero-initialization", 3, "Why CAN'T be all ZERO ?", "a network cannot be trained from weights that are all zero"),
    Claim("C07", "xavier-and-he", 4, "旨在维持各层激活值和梯度的大致稳定性", "Xavier for sigmoid and tanh, He for ReLU: activations and gradients have about the same size in all layers"),
    Claim("C08", "gradient-clipping", 3, "尤其在时序模型中，梯度爆炸会十分常见，可以使用梯度裁剪来尽量保证梯度值的稳定性", "in models of sequences, exploding gradients are common, and clipping keeps training stable"),
    Claim("C09", "words-and-characters", 3, "Char 空间会十分密集最多也就 26 个", "words are simpler to learn but sparse; characters are at most 26 and say little about meaning"),
    Claim("C10", "zipf", 3, "文本数据的分布大部分遵循奇普夫定律", "text follows Zipf's law"),
    Claim("C11", "longer-ngrams", 3, "在有大量语料的情况下采用多元词可能使建模更加简单", "with much text, longer n-grams make modeling simpler"),
    Claim("C12", "uniform-perplexity", 3, "在这种情况下，困惑度就是语料库中所有的词元的总数", "perplexity is between 1 and infinity; that of a uniform prediction is the number of tokens in the corpus"),
    Claim("C13", "perplexity-as-loss", 3, "在实际中常用困惑度 perplexity  $\\exp(\\pi)$ 来构建 Loss Function 以及 Metric", "perplexity exp(π) is used as the loss"),
    Claim("C14", "markov-window", 3, "因为输入数据是定长的，那么就可以直接采用线性回归或者 MLP 直接建模就可以了", "with a window of fixed length, linear regression or an MLP can model a sequence"),
    Claim("C15", "any-length", 0, "这使得 RNN 能够处理不同长度的序列", "shared weights let an RNN process sequences of any length"),
    Claim("C16", "vanishing-gradients", 0, "由于梯度消失和梯度爆炸，RNN 在训练过程中很难保持远距离时间步之间的信息", "because gradients vanish or explode, an RNN hardly preserves information over many time steps"),
    Claim("C17", "rnn-long-dependencies", 4, "这种机制使得 RNN 能够捕捉序列数据中的长期依赖关系", "its hidden state lets an RNN capture long-term dependencies"),
    Claim("C18", "update-gate", 3, "则无论序列的长度如何，在序列起始时间步的旧隐状态都将很容易保留并传递到序列结束", "if all update gates are near 1, the first state is preserved to the end, however long the sequence is"),
    Claim("C19", "reset-gate", 3, "任何预先存在的隐状态都会被重置为默认值", "a reset gate near 1 gives a vanilla RNN; near 0 it gives an MLP of the input, and any existing state is reset"),
    Claim("C20", "gates-and-distance", 3, "重置门有助于捕获序列中的短期依赖关系", "the reset gate helps with short dependencies, the update gate with long ones"),
    Claim("C21", "bidirectional-encoder", 0, "Encoder 可以是bi-RNN，让上下文向量有更丰富的语义信息", "a bidirectional encoder gives a richer context vector"),
    Claim("C22", "bidirectional-with-attention", 0, "或带有 注意力机制 的 RNN 时，bi-RNN 的使用没那么常见了", "with attention, a bidirectional RNN is less common"),
    Claim("C23", "bidirectional-decoder", 0, "decoder不能是bi-RNN，这是由decoder的自回归性质", "a decoder cannot be bidirectional, because it is autoregressive"),
    Claim("C24", "one-vector-loses", 2, "当输入信息太长时，会丢失掉一些信息", "one context vector loses information if the input is long"),
    Claim("C25", "last-state-holds-all", 0, "Encoder的hidden state就会包含整个序列的信息", "the last hidden state of the encoder contains the information of the whole sequence"),
    Claim("C26", "attention-mends-the-loss", 4, "Attention机制通过直接在编码器和解码器的所有位置之间建立联系，能够更好地捕捉序列中的长距离依赖", "attention links all positions of encoder and decoder, so it captures distant dependencies better"),
    Claim("C27", "no-preprocessing", 4, "不需要人工提取特征或进行复杂的预处理", "seq2seq needs no manual features and no complex preprocessing"),
    Claim("C28", "bos-and-eos", 4, "采用了类似于标签的手段减少对填充的依赖", "<bos> and <eos> reduce the need for padding"),
    Claim("C29", "padding-disturbs", 4, "需要用掩码（Mask）处理忽略补零元素，否则可能对模型有干扰", "padding has to be masked, or it may disturb the model"),
    Claim("C30", "teacher-forcing-converges", 0, "至少别越训越离谱，那样的话模型连收敛都收敛不了", "without teacher forcing, training may not even converge"),
    Claim("C31", "errors-accumulate", 0, "模型只能靠自己，生成的每个词，都会依赖前面已经生成了的词", "because of teacher forcing, errors accumulate in generation"),
    Claim("C32", "identity-is-hard", 0, "要让模型学到恒等映射，可能不是件简单的事", "to learn the identity function may not be simple"),
    Claim("C33", "notes-bleu", 0, "BLEU（bilingual evaluation understudy），通过与真实的标签序列进行比较来评估预测序列", "BLEU is exp(min(0, 1 − r / c)) Π p_n^(1/2ⁿ)"),
    Claim("C34", "brevity-penalty", 0, "惩罚项(Brevity Penalty)", "both forms of the brevity penalty are equal"),
    Claim("C35", "fewer-parameters", 2, "模型复杂度跟CNN、RNN相比，复杂度更小，参数也更小", "attention has fewer parameters and less complexity than a CNN or an RNN"),
    Claim("C36", "attention-is-faster", 2, "Attention机制每一步计算不依赖于上一步的计算结果，因此可以和CNN一样并行处理", "attention is fast: its steps do not depend on each other, so it is parallel, unlike an RNN"),
    Claim("C37", "attention-on-long-text", 2, "就算文本比较长，也能从中间抓住重点，不丢失重要的信息", "attention loses no important information, even in long texts"),
    Claim("C38", "attention-without-decoder", 2, "它可以脱离Encoder-Decoder框架", "attention does not need an encoder-decoder"),
    Claim("C39", "nonvolitional-cue", 0, "对于非自主性提示实现的注意力机制，我们可以简单地用一个参数化的全连接层来模拟", "a fully connected layer is enough for attention by nonvolitional cues"),
    Claim("C40", "unequal-widths", 3, "其可以处理特征维度不同的情况", "additive attention can process queries and keys of different widths, dot-product attention cannot"),
    Claim("C41", "dot-product-is-cosine", 2, "内积越大，即余弦值越大，就表示这两个向量相似度越高", "for equal norms, a larger dot product is a larger cosine, and 0 means orthogonal"),
    Claim("C42", "scaled-scores", 3, "作者解释这种用法的好处在于 softmax 时不要让其中的一些权重过于趋近于 1 或 0", "division by √d keeps the weights of the softmax away from 0 and 1"),
    Claim("C43", "scaling-regularizes", 2, "看成一种正则化就可以", "the division by √d is a kind of regularization"),
    Claim("C44", "mask-is-zero", 1, "的值设为 -∞（权重为 0）即可", "a score of −∞ before the softmax gives a weight of exactly 0"),
    Claim("C45", "mask-matches-generation", 2, "所以我们需要用masking去遮住他们（以保证训练时和验证时保持一致）", "the mask makes training compute the same as generation"),
    Claim("C46", "mask-in-decoder-only", 3, "其中的 Mask 是在 Decoder 时加入", "the mask is for the decoder only"),
    Claim("C47", "diagonal-is-highest", 3, "自己对自己的 Attention 肯定是最高的", "the attention of a token to itself is always the highest"),
    Claim("C48", "several-heads", 3, "With a single attention head, averaging inhibits this", "several heads attend to different things; one head averages them"),
    Claim("C49", "meaning-of-a-head", 1, "实际上一个 Single-Head Attention 所表示的实际含义往往不是特别明显，有时甚至难以理解", "the meaning of a single head is often unclear"),
    Claim("C50", "value-up-down", 1, "常常将多个头的 $Value_{up}$ 拼接合并为一个 Output Matrix", "the sum of the ΔE of all heads is the concatenation of the heads times one output matrix"),
    Claim("C51", "one-large-projection", 3, "一般先用一个大的 $W$ 实现 $d_{model} \\to d_{model}$ 的投影，然后再切分", "one large projection that is split equals a projection for each head"),
    Claim("C52", "order-does-not-matter", 3, "就算把输入的句子顺序彻底打乱，输入变得完全不一样，但是输出的结果却不会有任何改变", "without positions, a shuffled input gives an unchanged output"),
    Claim("C53", "attention-shuffles", 2, "Attention会把输入序列的顺序打乱", "attention shuffles the order of its input"),
    Claim("C54", "unique-positions", 3, "任何两个时间步上该向量都不会重复", "no two position encodings are equal"),
    Claim("C55", "unlimited-view", 3, "尽管现在能够扫描的时序视野理论上已经可以拓展到无限长", "the view of a Transformer is in theory unlimited"),
    Claim("C56", "embedding-norm", 2, "因此需要乘以$\\sqrt{d_{model}}$使输出的结果与Positional Encoding在Scale，即数据规模下相近", "embeddings learn a small norm, so they are multiplied by √d, or positions would dominate"),
    Claim("C57", "three-tied-embeddings", 2, "三个权重一样，训练起来相对简单", "three tied embeddings are simpler to train"),
    Claim("C58", "unembedding-is-transpose", 1, "即嵌入矩阵的转置", "the unembedding matrix is the transposed embedding matrix"),
    Claim("C59", "embedding-has-positions", 1, "嵌入矩阵中还隐含了 token 的位置信息", "the embedding matrix contains the positions of tokens"),
    Claim("C60", "analogy", 1, "E(aunt) - E(uncle) = E(woman) - E(man)", "E(aunt) − E(uncle) = E(woman) − E(man)"),
    Claim("C61", "last-vector-alone", 1, "预测（分类）下一个 token 的计算过程完全基于序列中的最后一个向量", "the prediction of the next token rests on the last vector alone"),
    Claim("C62", "batch-norm-fluctuates", 2, "当每次做小批量且样本长度变化比较大的时候，均值与方差的抖动相对较大", "batch norm fluctuates with small batches and unequal lengths, and fails on longer texts"),
    Claim("C63", "layer-norm-is-transposed", 2, "可以理解为将LayNorm先转置，然后使用BatchNorm，之后再转置回来", "layer norm is: transpose, batch norm, transpose back"),
    Claim("C64", "norm-over-sentence", 3, "在每一句话的 seq 和 f 维度上进行 Norm 或许是更加正确的选择", "a norm over time and width of each sentence may be the better choice for text"),
    Claim("C65", "norm-after-sublayer", 0, "为什么layer normalization是放在每一层处理之后？", "layer norm stands after each sublayer (post-norm): is that the right place?"),
    Claim("C66", "other-norms", 0, "为什么是layer normalization？别的行吗？", "why layer norm, would another norm do?"),
    Claim("C67", "time-and-features", 3, "Attention 的主要作用是提取时序信息，MLP 在此更重要的是对特征维度信息进行提取", "attention extracts information over time, the feed-forward layer over features"),
    Claim("C68", "linear-features", 3, "Transformer 对每个时序特征的提取和 RNN 一样是线性操作", "a Transformer extracts the features of each time step linearly, as an RNN does"),
    Claim("C69", "label-smoothing", 3, "标签使用了 [Label Smoothing](https://zhuanlan.zhihu.com/p/477813062) 的 Trick", "label smoothing helps"),
    Claim("C70", "weak-assumptions", 3, "如果有较多的数据就可以 Train 出来一个比较好的模型", "attention assumes less about the data, so it needs more data than an RNN"),
    Claim("C71", "receptive-field", 3, "需要很多层一点点提取才可以关注到整张图所有 Pixel 之间的信息", "a convolution needs many layers to cover everything, attention one"),
    Claim("C72", "sensitive-to-positions", 1, "因为 transformer 对数据之间的位置关系不敏感，相对而言 CNN 则对位置敏感", "a Transformer is not sensitive to positions, a CNN is"),
    Claim("C73", "class-token", 1, "是我认为的这篇文章的技术创新点", "class token and positions are the innovation of ViT"),
    Claim("C74", "any-image-size", 1, "VIT 可以处理任意长度的序列，所以它可以处理任意大小的图像", "a ViT accepts images of any size"),
    Claim("C75", "hybrid", 1, "这个模型也可以和普通 CNN 模型结合使用", "a ViT combines well with a CNN"),
    Claim("C76", "vit-is-larger", 1, "VIT 的参数量较大，计算效率较低", "a ViT has more parameters and is slower than a CNN"),
    Claim("C77", "vit-needs-data", 1, "在数据集足够大的情况下，VIT 的准确率通常高于 CNN", "with enough data a ViT is more accurate than a CNN"),
    Claim("C78", "cnn-is-parallel", 1, "CNN 能够并行地计算，因此速度很快", "a CNN is fast, because it is parallel"),
    Claim("C79", "local-and-global", 1, "CNN 由于卷积核的局部性，只能关注局部区域的特征", "a CNN attends to local features, a ViT to global ones"),
    Claim("C80", "transformer-squared", 0, "Transformer^2^的引入", "singular value fine-tuning (Transformer²) adapts better than LoRA with fewer weights"),
    Claim("C81", "not-all-you-need", 0, "所以，他们说：Attention is all you need.", "attention is all you need (“but not quite”, the notes add)"),
    Claim("C82", "human-vision", 0, "人类的视觉神经系统大约每秒收到10^8^位的信息", "human vision receives 10⁸ bits per second"),
)  # fmt: skip
"""Every claim, in the order of the notes' subjects."""

EXPERIMENTS: dict[str, str] = {
    "C01": "closed_form",
    "C02": "closed_form",
    "C03": "learning_rates",
    "C04": "learning_rates",
    "C05": "automatic_differentiation",
    "C06": "initial_weights",
    "C07": "initial_weights",
    "C08": "exploding_gradients",
    "C10": "zipf",
    "C12": "perplexity_as_loss",
    "C13": "perplexity_as_loss",
    "C16": "gradients_over_time",
    "C17": "gradients_over_time",
    "C18": "gates",
    "C19": "gates",
    "C23": "bidirectional_decoder",
    "C24": "copying",
    "C25": "copying",
    "C26": "copying",
    "C29": "masks_and_padding",
    "C30": "copying",
    "C31": "copying",
    "C32": "copying",
    "C33": "variants_of_bleu",
    "C34": "brevity_penalty",
    "C35": "parameters_and_operations",
    "C36": "speed",
    "C37": "copying",
    "C38": "attention_in_a_trained_gpt",
    "C39": "cues",
    "C40": "widths_of_attention",
    "C41": "attention_weights",
    "C42": "attention_weights",
    "C43": "attention_in_a_trained_gpt",
    "C44": "attention_weights",
    "C45": "masks_and_padding",
    "C46": "masks_and_padding",
    "C47": "attention_in_a_trained_gpt",
    "C48": "attention_in_a_trained_gpt",
    "C50": "identities_of_heads",
    "C51": "identities_of_heads",
    "C52": "order_of_tokens",
    "C53": "order_of_tokens",
    "C54": "position_vectors",
    "C56": "embeddings_of_a_trained_gpt",
    "C58": "embeddings_of_a_trained_gpt",
    "C61": "attention_in_a_trained_gpt",
    "C63": "norms_as_transposes",
    "C64": "blocks_of_a_transformer",
    "C65": "blocks_of_a_transformer",
    "C66": "blocks_of_a_transformer",
    "C67": "receptive_field",
    "C68": "parameters_and_operations",
    "C70": "amount_of_data",
    "C71": "receptive_field",
    "C72": "order_of_tokens",
    "C78": "speed",
    "C80": "adapters_of_a_small_gpt",
    "C81": "blocks_of_a_transformer",
}
"""The module of each experiment."""

UNTESTED: dict[str, tuple[str, str]] = {
    "C09": (
        "No experiment yet: it needs one text and equal models for words, characters and BPE. That characters are at most "
        "26 is wrong for any text with punctuation or Chinese.",
        "还没有实验：需要同一文本和相同的模型，分别用单词、字符和 BPE。“最多 26 个字符”对带标点的文本和中文都不成立。",
    ),
    "C11": (
        "No experiment here: n-gram models of each order on a real text are measured on the page about n-gram models.",
        "这里没有实验：各阶 n 元模型在真实文本上的结果见 n 元模型那一页。",
    ),
    "C14": (
        "No experiment here: windows, one step and many steps ahead are measured on the page about series.",
        "这里没有实验：窗口模型向前一步和多步的误差见时间序列那一页。",
    ),
    "C15": (
        "No experiment of its own: C32 and C37 measure accuracy at lengths that did not occur in training.",
        "没有单独的实验：C32 和 C37 测了训练中没有出现过的长度。",
    ),
    "C20": (
        "No experiment yet: it needs trained gates that are forced open one at a time, for several distances.",
        "还没有实验：需要在训练好的门上逐个强制打开，并比较不同的距离。",
    ),
    "C21": (
        "No experiment yet: both encoders need equal numbers of weights and a translation task.",
        "还没有实验：两种编码器参数量要相同，并在翻译任务上比较。",
    ),
    "C22": (
        "Not testable by a program: it is about how often papers use it. The first attention model had a bidirectional "
        "encoder (Bahdanau et al. 2015).",
        "程序无法检验：这是关于论文中用得多不多。第一个注意力模型的编码器就是双向的（Bahdanau 等 2015）。",
    ),
    "C27": (
        "No experiment yet: it needs real translations with several tokenizers.",
        "还没有实验：需要真实的翻译数据和几种分词方式。",
    ),
    "C28": (
        "Not testable as it stands: batches of unequal lengths are padded or packed with and without these tokens.",
        "照原样无法检验：无论有没有这些词元，长短不一的批次都要填充或打包。",
    ),
    "C49": (
        "Not testable as it stands: “unclear” has no measure. C48 measures how different heads are.",
        "照原样无法检验：“不明显”没有度量。C48 测的是各个头有多不同。",
    ),
    "C55": (
        "No experiment of its own: C37 measures attention at twice the length of training.",
        "没有单独的实验：C37 测了两倍训练长度时的注意力。",
    ),
    "C57": (
        "No experiment yet: it needs a translation with a shared vocabulary, tied in none, two and three places.",
        "还没有实验：需要共用词表的翻译任务，分别在零处、两处、三处共用。",
    ),
    "C59": (
        "Not testable as it stands: a position in the sentence and a position in space are different claims. A word has "
        "one row, whatever its position in the sentence.",
        "照原样无法检验：“句子里的位置”和“空间里的位置”是两个论断。同一个词无论在句中何处都只有一行。",
    ),
    "C60": (
        "No experiment yet: it needs embeddings of a large text and a list of analogies; two examples are no evidence.",
        "还没有实验：需要大量文本训练的词向量和一份类比表；两个例子不算证据。",
    ),
    "C62": (
        "No experiment yet: texts of controlled lengths are needed. C66 compares the norms on short sentences.",
        "还没有实验：需要控制长度的文本。C66 在短句上比较了几种归一化。",
    ),
    "C69": (
        "No experiment here: measured on Multi30k, on the page about translation.",
        "这里没有实验：Multi30k 上的结果见翻译那一页。",
    ),
    "C73": (
        "No experiment here: pooling is measured on the page about images.",
        "这里没有实验：不同池化方式的结果见图像那一页。",
    ),
    "C74": (
        "No experiment here: other image sizes are measured on the page about images.",
        "这里没有实验：不同图片大小的结果见图像那一页。",
    ),
    "C75": (
        "No experiment here: a hybrid is measured on the page about images.",
        "这里没有实验：混合模型的结果见图像那一页。",
    ),
    "C76": (
        "No experiment yet: parameters and images per second have to be compared at equal accuracy.",
        "还没有实验：需要在准确率相同的前提下比较参数量和速度。",
    ),
    "C77": (
        "No experiment yet: both models need several amounts of data with equal training.",
        "还没有实验：两种模型要在多种数据量上、用同样的训练来比较。",
    ),
    "C79": (
        "No experiment of its own: C71 measures which positions one layer covers.",
        "没有单独的实验：C71 测了一层能覆盖哪些位置。",
    ),
    "C82": (
        "Not testable here: it is about human vision.",
        "这里无法检验：这是关于人的视觉。",
    ),
}
"""Why a claim has no experiment."""


def find_claim(word: str) -> Claim:
    """The claim with this id or name."""
    for claim in CLAIMS:
        if word.lower() in (claim.id.lower(), claim.name):
            return claim
    raise unknown_name("claim", word, [name for claim in CLAIMS for name in (claim.id, claim.name)])
