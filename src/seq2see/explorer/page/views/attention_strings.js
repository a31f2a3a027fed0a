/** The names of layers and heads for the views "Attention" and "Single head", and the texts of the view "Attention". */

export const shared = {
  en: {
    layer: "layer",
    head: "head",
    head_number: "head {number}",
    encoder: "encoder {number}",
    decoder: "decoder {number}",
    decoder_self: "decoder {number}, self-attention",
    decoder_cross: "decoder {number}, cross-attention",
    recurrent: "decoder, cross-attention",
    pool: "attention pooling",
    own_output: "the model's own output",
    examples: "examples (★: with gold alignment)",
    no_attention: "This model has no attention layers.",
  },
  zh: {
    layer: "层",
    head: "注意力头",
    head_number: "第 {number} 头",
    encoder: "编码器 {number}",
    decoder: "解码器 {number}",
    decoder_self: "解码器 {number}，自注意力",
    decoder_cross: "解码器 {number}，交叉注意力",
    recurrent: "解码器，交叉注意力",
    pool: "注意力池化",
    own_output: "模型自己的输出",
    examples: "例句（★：有标准对齐）",
    no_attention: "这个模型没有注意力层。",
  },
};

/** The title of an attention layer. */
export function titleOf(layer, t) {
  if (layer.stack === "pool") return t("pool");
  if (layer.block === null) return t("recurrent");
  const number = layer.block + 1;
  if (layer.stack === "encoder") return t("encoder", { number });
  return t(layer.isPaired ? (layer.is_cross_attention ? "decoder_cross" : "decoder_self") : "decoder", { number });
}

/** The layers with a flag `isPaired`: whether the model has both self-attention and cross-attention in its decoder. */
export function markPaired(layers) {
  const isPaired = layers.some((layer) => layer.is_cross_attention);
  return layers.map((layer) => ({ ...layer, isPaired }));
}

export const strings = {
  en: {
    ...shared.en,
    title: "Attention",
    hint: "Look for heads with a simple pattern: attention to the previous token, to the same word, or to the word being translated.",
    help_text:
      "Each row is a query token; its cells are the attention weights of the key tokens, and sum to 1. The thumbnails show " +
      "all heads; select one. Point at a row, or use the arrow keys, to compare the weights of this query in all heads of " +
      "the layer. If a sentence has a gold alignment, its links are framed.\n" +
      "Entropy measures how spread out the weights are, in bits: 0 for a single key, 3 for eight keys with equal weights. " +
      "Distance is the mean distance between query and key in tokens. The alignment error rate (AER) compares the strongest " +
      "links with the gold alignment; 0 is perfect.",
    heads: "heads",
    one: "one head",
    all: "all heads, one color each",
    mean: "mean of all heads",
    max: "maximum of all heads",
    display: "display",
    matrix: "matrix",
    lines: "lines",
    hide_special: "hide special tokens (<bos>, <eos>)",
    transposed: "queries as columns",
    threshold: "minimum weight of lines",
    grid: "all heads",
    token_weights: "attention weights of “{token}” in each head ({title})",
    similarity: "similarity of the heads of this layer",
    note_bits: "{value} bits",
    note_distance: "distance {value}",
    note_error: "AER {value}",
    one_token: "one query in all heads",
    on_image: "attention weights on the image",
    color_max: "the strongest color is {value}",
    color_max_clipped: "the strongest color is {value} or more",
    top_keys: "the {shown} of {of} keys with the largest weights",
    sizes: "{rows} × {columns} tokens",
    labels_note: "zoom in with + to see labels",
    absolute: "fixed color range 0 to 1",
    gold_note: "framed: the gold alignment (dashed: possible links)",
    hidden_note: "the weights of hidden tokens are not redistributed",
    table: "measures of all heads",
    entropy: "entropy (bits)",
    distance: "distance (tokens)",
    alignment_error: "alignment error rate",
  },
  zh: {
    ...shared.zh,
    title: "注意力",
    hint: "寻找模式简单的头：关注前一个词元、相同的词，或正在翻译的那个词。",
    help_text:
      "每一行是一个查询词元，格子是它对各个键词元的注意力权重，一行之和为 1。缩略图每个注意力头一张，点选其一。" +
      "指向一行，或用方向键移动，可比较这个查询在这一层各个头里的权重。句子有标准词对齐时，对齐的格子会加框。\n" +
      "熵（比特）表示权重有多分散：集中在一个键上为 0，平均分给八个键为 3。距离是查询与键平均相隔多少个词元。" +
      "对齐错误率（AER）把权重最大的连线与标准对齐比较，0 为全对。",
    heads: "注意力头",
    one: "一个头",
    all: "所有头，各一种颜色",
    mean: "所有头的平均",
    max: "所有头的最大值",
    display: "显示方式",
    matrix: "矩阵",
    lines: "连线",
    hide_special: "隐藏特殊词元（<bos>、<eos>）",
    transposed: "查询作列",
    threshold: "连线的最小权重",
    grid: "所有的头",
    token_weights: "“{token}”在各个头里的注意力权重（{title}）",
    similarity: "这一层各头的相似度",
    note_bits: "{value} 比特",
    note_distance: "距离 {value}",
    note_error: "AER {value}",
    one_token: "一个查询在各个头里",
    on_image: "图片上的注意力权重",
    color_max: "最强的颜色为 {value}",
    color_max_clipped: "最强的颜色为 {value} 及以上",
    top_keys: "{of} 个键中权重最大的 {shown} 个",
    sizes: "{rows} × {columns} 个词元",
    labels_note: "用 + 放大后显示文字",
    absolute: "颜色范围固定为 0 到 1",
    gold_note: "加框：标准对齐（虚线：可能的对应）",
    hidden_note: "被隐藏词元的权重不会分给其他词元",
    table: "各头的度量",
    entropy: "熵（比特）",
    distance: "距离（词元）",
    alignment_error: "对齐错误率",
  },
};
