/** The texts of the view "Adapter". */

export const strings = {
  en: {
    title: "Adapter",
    hint: "Which matrices did the adapter change most, and are these changes at the largest or at the smallest singular values?",
    help_text:
      "The weights of the base model are frozen; only the adapter was trained. A matrix W = U diag(s) Vᵀ has singular values s. " +
      "SVF (Transformer²) multiplies each of them by a trained number z: W' = U diag(s ⊙ z) Vᵀ. LoRA adds a matrix of low rank: " +
      "W' = W + α/r · B A. Each row of the map is a matrix, with its largest singular value on the left. The color is the " +
      "factor of the singular value minus 1: z − 1 for SVF, else the singular value of W' divided by that of W, minus 1. Click a row " +
      "to compare the singular values of a matrix without and with the adapter.",
    summary: "{kind} on {base}: {adapter} trained weights, {percent} of the {model} weights of the model.",
    factors: "Factors of the singular values, minus 1",
    axes: "Blue: strengthened, orange: weakened. Of a matrix with more singular values than columns, some are shown, at equal distances.",
    matrix: "matrix",
    values: "Singular values of {matrix}",
    before: "without the adapter", after: "with the adapter", rank: "singular value, the largest first",
    change: "Root mean square of factor − 1: {change}",
    "kind_svf": "SVF", "kind_svf-normalized": "SVF, normalized", kind_lora: "LoRA",
  },
  zh: {
    title: "适配器",
    hint: "适配器改变最大的是哪些矩阵？改变的是大奇异值还是小奇异值？",
    help_text:
      "基座模型的权重是冻结的，训练的只有适配器。矩阵 W = U diag(s) Vᵀ 的奇异值是 s。SVF（Transformer²）把每个奇异值乘上一个训练出来的数 z：" +
      "W' = U diag(s ⊙ z) Vᵀ。LoRA 加上一个低秩矩阵：W' = W + α/r · B A。图中每行是一个矩阵，最大的奇异值在最左边。" +
      "颜色表示奇异值的系数减 1：对 SVF 是 z − 1，对其他适配器是 W' 与 W 的奇异值之比减 1。点击一行，比较这个矩阵加适配器前后的奇异值。",
    summary: "{base} 上的 {kind}：训练了 {adapter} 个权重，占模型 {model} 个权重的 {percent}。",
    factors: "奇异值的系数减 1",
    axes: "蓝色：增强；橙色：减弱。奇异值的个数多于列数时，等间隔地显示其中一部分。",
    matrix: "矩阵",
    values: "{matrix} 的奇异值",
    before: "没有适配器", after: "加上适配器", rank: "奇异值（从大到小）",
    change: "系数减 1 的均方根：{change}",
    "kind_svf": "SVF", "kind_svf-normalized": "归一化的 SVF", kind_lora: "LoRA",
  },
};
