/** What the views "Attention" and "One head by hand" say about layers and heads, and what the first says besides. */

export const shared = {
  en: {
    layer: "layer",
    head: "head",
    head_number: "head {number}",
    encoder: "encoder {number}",
    decoder: "decoder {number}",
    decoder_self: "decoder {number}, to itself",
    decoder_cross: "decoder {number}, to the source",
    recurrent: "decoder, to the source",
    pool: "pooled",
    own_answer: "its own answer",
    examples: "examples (★: true alignment known)",
    no_attention: "This model has no attention: there is nothing it looks at.",
  },
  zh: {
    layer: "层",
    head: "注意力头",
    head_number: "第 {number} 头",
    encoder: "编码器 {number}",
    decoder: "解码器 {number}",
    decoder_self: "解码器 {number}，看自己",
    decoder_cross: "解码器 {number}，看原文",
    recurrent: "解码器，看原文",
    pool: "汇总",
    own_answer: "模型自己的回答",
    examples: "例句（★：已知标准对齐）",
    no_attention: "这个模型没有注意力，没有可看的内容。",
  },
};

/** What one attention of the model is called. */
export function titleOf(layer, word) {
  if (layer.stack === "pool") return word("pool");
  if (layer.block === null) return word("recurrent");
  const number = layer.block + 1;
  if (layer.stack === "encoder") return word("encoder", { number });
  return word(layer.markPaired ? (layer.is_cross_attention ? "decoder_cross" : "decoder_self") : "decoder", { number });
}

/** Layers as the server lists them, each knowing whether its stack also looks elsewhere: then its title says where. */
export function markPaired(layers) {
  const is_cross_attention = layers.some((layer) => layer.is_cross_attention);
  return layers.map((layer) => ({ ...layer, markPaired: is_cross_attention }));
}

export const strings = {
  en: {
    ...shared.en,
    title: "Attention",
    hint: "Look for heads with a simple habit: the token before, the same word, the word that is being translated.",
    help_text:
      "Every row is a token that asks, and its cells say how much it takes from each token it may look at: a row adds " +
      "up to 1. Small images: one for each head; choose one. Point at a token, or walk with the arrow keys, to see " +
      "where it looks by every head of the layer. Where a sentence's true word alignment is known, its links are framed.\n" +
      "Entropy says how spread a look is, in bits: 0 for a single token, 3 for eight tokens evenly. Distance is how " +
      "many places away it looks. The alignment error compares the strongest links with the true ones; 0 is perfect.",
    heads: "heads",
    one: "one head",
    all: "all heads, each in its color",
    mean: "mean of all heads",
    max: "largest of all heads",
    shows: "shown as",
    matrix: "matrix",
    lines: "lines",
    hide_special: "hide <bos>, <eos> and the like",
    transposed: "tokens that ask as columns",
    threshold: "lines from",
    grid: "all heads",
    looks: "“{token}” looks here, by each head ({title})",
    similarity: "how alike the heads of this layer look",
    note_bits: "{value} bits",
    note_distance: "{value} away",
    note_error: "error {value}",
    one_token: "one token, by each head",
    on_image: "where it looks on the image",
    darkest: "the strongest color is {value}",
    darkest_and_more: "the strongest color is {value} and more",
    only_strongest: "the {shown} tokens of {of} that are looked at most",
    sizes: "{rows} × {columns} tokens",
    labels: "labels appear when cells are large enough: + and −",
    absolute: "colors from 0 to 1",
    gold: "framed: the true alignment (dashed: links that are not wrong, but need not be there)",
    hidden: "what goes to hidden tokens is not shared out among the others",
    table: "heads, measured",
    entropy: "entropy (bits)",
    distance: "distance (places)",
    alignment_error: "alignment error",
  },
  zh: {
    ...shared.zh,
    title: "注意力",
    hint: "寻找习惯简单的头：总看前一个词元、相同的词，或正在翻译的那个词。",
    help_text:
      "每一行是一个发问的词元，格子表示它从每个可看的词元取走多少：一行之和为 1。小图每个注意力头一张，点选其一。" +
      "指向一个词元，或用方向键移动，可看到这一层每个头各看向哪里。已知标准词对齐的句子，对齐的格子会加框。\n" +
      "熵（比特）表示看得多分散：只看一个词元为 0，平均看八个词元为 3。距离是平均看出多少个位置远。对齐错误率把最强的连线与标准对齐比较，0 为全对。",
    heads: "注意力头",
    one: "一个头",
    all: "所有头，各一种颜色",
    mean: "所有头的平均",
    max: "所有头的最大值",
    shows: "显示为",
    matrix: "矩阵",
    lines: "连线",
    hide_special: "隐藏 <bos>、<eos> 等",
    transposed: "发问的词元作列",
    threshold: "连线下限",
    grid: "所有的头",
    looks: "“{token}” 看向哪里，逐头（{title}）",
    similarity: "这一层各头有多相似",
    note_bits: "{value} 比特",
    note_distance: "距离 {value}",
    note_error: "错误 {value}",
    one_token: "一个词元，逐头",
    on_image: "在图片上看向哪里",
    darkest: "最强的颜色为 {value}",
    darkest_and_more: "最强的颜色为 {value} 及以上",
    only_strongest: "{of} 个词元中看得最多的 {shown} 个",
    sizes: "{rows} × {columns} 个词元",
    labels: "格子够大时才显示文字：用 + 和 −",
    absolute: "颜色固定为 0 到 1",
    gold: "加框：标准对齐（虚线：可有可无、但不算错的对应）",
    hidden: "看向被隐藏词元的部分不会分给其他词元",
    table: "各头的度量",
    entropy: "熵（比特）",
    distance: "距离（位置）",
    alignment_error: "对齐错误率",
  },
};
