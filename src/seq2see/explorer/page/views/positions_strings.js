/** The texts of the view "Positions". */

export const strings = {
  en: {
    title: "Positions",
    hint: "Change the order of the words: does the output change, also without position encodings?",
    help_text:
      "Attention without position encodings is permutation-equivariant: it does not depend on the order of the tokens. " +
      "Models encode positions by vectors that are added to the embeddings, by rotating queries and keys (RoPE), or by a " +
      "bias on the attention scores (ALiBi). Drag the tokens into another order to compare the outputs. Without position " +
      "encodings, an encoder computes the same vector for a token at every position.",
    another_order: "The same tokens in another order",
    order_help: "Drag a token, or move it with Shift and the arrow keys. The small numbers are the original positions.",
    reverse: "reverse", shuffle: "shuffle", reset: "reset", off: "without position encodings",
    original: "original order", reordered: "new order",
    distances: "Change of each token's vector",
    distances_help: "The distance between the vectors of a token at its new and at its original position, for each layer, " +
      "relative to the length of the vector; 0: no change.",
    reorder_hint: "Change the order of the tokens to compare their vectors.",
    embedding: "embedding", block: "block {number}",
    position_encoding: "Position encoding", side: "side", source: "source", target: "target", length: "positions", head: "head",
    kind_sinusoidal: "sinusoidal", kind_learned: "learned", kind_rotary: "rotary (RoPE)", kind_alibi: "ALiBi", kind_none: "none",
    "kind_learned-grid": "learned, 2D", "kind_sinusoidal-grid": "sinusoidal, 2D",
    about_sinusoidal: "Each position has a vector of sines and cosines with decreasing frequencies (Vaswani et al. 2017). It is " +
      "also defined for positions that did not occur in training.",
    about_learned: "Each position has a learned embedding, as tokens have (BERT, GPT-2).",
    about_rotary: "Pairs of dimensions of queries and keys are rotated by an angle proportional to the position (RoPE): here the " +
      "angles from 0 to 2π. Attention scores depend only on the distance of two positions.",
    about_alibi: "A bias added to the attention scores that decreases with the distance of the key; each head has another slope (ALiBi).",
    about_none: "This side has no position encoding. A recurrent network processes the tokens in order and needs none.",
    "about_learned-grid": "Each patch of the image has a learned position embedding (ViT). The two-dimensional structure is not " +
      "given; the model learns it.",
    "about_sinusoidal-grid": "One half of each vector encodes the row of a patch, the other half its column, both by sines and cosines.",
    table_sinusoidal: "Position vectors", table_learned: "Position embeddings", table_rotary: "Rotation angles",
      table_alibi: "Bias of the attention scores",
    "table_learned-grid": "Position embeddings", "table_sinusoidal-grid": "Position vectors",
    axes_table: "Rows: positions from the top. Columns: dimensions of the vectors. Blue: positive, orange: negative.",
    axes_angles: "Rows: positions from the top. Columns: pairs of dimensions. The stronger the color, the larger the angle.",
    axes_alibi: "Rows: query positions. Columns: key positions. Orange: negative bias.",
    similarity: "Similarity of positions",
    similarity_help: "Rows and columns are positions. The cosine similarity of their vectors; for RoPE the mean cosine of the " +
      "rotation angles between them.",
    on_grid: "Similarity on the grid", similarity_to: "Similarity of all patch positions to {position}",
  },
  zh: {
    title: "位置",
    hint: "把词换个顺序：输出变了吗？去掉位置编码之后呢？",
    help_text:
      "没有位置编码的注意力与词元的顺序无关（置换等变）。模型用加在嵌入上的位置向量、查询和键的旋转（RoPE），" +
      "或注意力分数上的偏置（ALiBi）来编码位置。把词元拖成另一种顺序，比较模型的输出。" +
      "去掉位置编码后，编码器给一个词元的向量与它的位置无关。",
    another_order: "同样的词元，另一种顺序",
    order_help: "拖动词元，或用 Shift 加方向键移动它。小数字是原来的位置。",
    reverse: "倒序", shuffle: "打乱", reset: "还原", off: "不用位置编码",
    original: "原顺序", reordered: "新顺序",
    distances: "各词元向量的变化",
    distances_help: "每一层中，词元在新位置与原位置的向量之间的距离，相对于向量的长度；0 表示没有变化。",
    reorder_hint: "改变词元的顺序，比较它们的向量。",
    embedding: "嵌入", block: "第 {number} 块",
    position_encoding: "位置编码", side: "端", source: "源端", target: "目标端", length: "位置数", head: "头",
    kind_sinusoidal: "正弦", kind_learned: "可学习", kind_rotary: "旋转（RoPE）", kind_alibi: "ALiBi", kind_none: "无",
    "kind_learned-grid": "可学习，二维", "kind_sinusoidal-grid": "正弦，二维",
    about_sinusoidal: "每个位置有一个由正弦和余弦组成的向量，频率从左到右递减（Vaswani 等，2017）。训练中没有出现过的位置也有定义。",
    about_learned: "每个位置有一个可学习的嵌入，与词元一样（BERT、GPT-2）。",
    about_rotary: "查询和键的各对维度按与位置成正比的角度旋转（RoPE）：这里是 0 到 2π 的角度。注意力分数只与两个位置的距离有关。",
    about_alibi: "加在注意力分数上的偏置，随键的距离减小，每个头的斜率不同（ALiBi）。",
    about_none: "这一端没有位置编码。循环网络按顺序处理词元，不需要位置编码。",
    "about_learned-grid": "图片的每个图块有一个可学习的位置编码（ViT）。二维结构没有给出，是模型学到的。",
    "about_sinusoidal-grid": "每个向量的一半编码图块的行，另一半编码列，都用正弦和余弦。",
    table_sinusoidal: "位置向量", table_learned: "位置编码", table_rotary: "旋转角度", table_alibi: "注意力分数的偏置",
    "table_learned-grid": "位置编码", "table_sinusoidal-grid": "位置向量",
    axes_table: "行：位置，自上而下。列：向量的维度。蓝色为正，橙色为负。",
    axes_angles: "行：位置，自上而下。列：各对维度。颜色越强，角度越大。",
    axes_alibi: "行：查询的位置。列：键的位置。橙色：偏置为负。",
    similarity: "位置的相似度", similarity_help: "行和列都是位置。向量的余弦相似度；RoPE 则是两个位置之间旋转角的平均余弦。",
    on_grid: "网格上的相似度", similarity_to: "各图块的位置与 {position} 的相似度",
  },
};
