/** The texts of the view "Images". */

export const strings = {
  en: {
    title: "Images",
    hint: "Cover the patches with the largest attention weights: does the prediction change? Attention is not always used.",
    help_text:
      "A Vision Transformer (ViT) splits an image into patches and processes them as a sequence of tokens. Point at a patch to " +
      "see its attention map: bright patches have large weights. By default the map of the class token is shown, from which " +
      "the label is predicted. “Rollout” combines the attention of all layers; “position” shows the similarity of the " +
      "position embeddings.\n" +
      "Click a patch to cover it, drag it to another position (keyboard: arrows, Enter, Shift+arrows), and compare the " +
      "predictions. A video is shown as a row of frames, which can be covered and moved in the same way.",
    draw: "draw", name: "name", truth: "reference", own_image: "your image", own_video: "your video",
    overlay: "overlay", attention: "attention", rollout: "rollout", position: "position embeddings", none: "none",
    layer: "layer", head: "head", mean: "mean", fusion: "head fusion", min: "minimum", max: "maximum", discard: "discard ratio",
    class_token: "the class token", all_patches: "all patches (mean)", patch: "patch {position}",
    patch_attends_to: "Attention weights of patch {position}", class_attends_to: "Attention weights of the class token",
    patches_attend_to: "Mean attention weights of all patches",
    rollout_to: "Attention rollout to {name}", similarity_to: "Similarity of the position embeddings to that of patch {position}",
    shuffle: "shuffle patches", shuffle_frames: "shuffle frames", reset: "reset order", uncover: "uncover all",
    off: "without position embeddings",
    prediction: "Prediction", original: "original", changed: "changed",
    caption_help: "Point at a token of the caption to see its attention map.",
    regions: "Attention map of a token", word_attends_to: "Attention weights of “{word}”",
    unchanged: "Cover or move patches to compare the predictions.",
    unchanged_video: "Cover or move frames to compare the predictions.",
    no_attention: "This model has no attention layers: it is a convolutional network. Patches can still be covered and moved.",
    board: "drawing board", board_help: "Draw with the mouse, or move with the arrow keys and paint with Space.",
    pen_color: "color", pen_number: "color {number}", shape_circle: "circle", shape_square: "square", shape_triangle: "triangle",
    shape_cross: "cross", shape_ring: "ring", shape_nothing: "empty",
  },
  zh: {
    title: "图片",
    hint: "遮住注意力权重最大的图块，预测会变吗？有注意力不等于被用到。",
    help_text:
      "视觉 Transformer（ViT）把图片切成图块，当作词元序列处理。指向一个图块，可看到它的注意力图：越亮的图块权重越大。" +
      "默认显示类别词元（class token）的注意力图，标签由它预测。“注意力展开（rollout）”合并所有层的注意力；" +
      "“位置编码”显示各位置编码的相似度。\n" +
      "点击图块可以遮住它，拖动可以换位置（键盘：方向键、回车、Shift+方向键），比较预测的变化。视频显示为一排帧，" +
      "每一帧也可以遮住和移动。",
    draw: "画图", name: "名称", truth: "参考答案", own_image: "你的图片", own_video: "你的视频",
    overlay: "叠加显示", attention: "注意力", rollout: "注意力展开", position: "位置编码", none: "无",
    layer: "层", head: "头", mean: "平均", fusion: "合并各头", min: "最小值", max: "最大值", discard: "舍弃比例",
    class_token: "类别词元", all_patches: "所有图块（平均）", patch: "图块 {position}",
    patch_attends_to: "图块 {position} 的注意力权重", class_attends_to: "类别词元的注意力权重",
    patches_attend_to: "所有图块的平均注意力权重",
    rollout_to: "到{name}的注意力展开", similarity_to: "各位置编码与图块 {position} 的位置编码的相似度",
    shuffle: "打乱图块", shuffle_frames: "打乱各帧", reset: "还原顺序", uncover: "全部揭开", off: "不用位置编码",
    prediction: "预测", original: "原图", changed: "改动后", caption_help: "指向描述中的一个词元，可看到它的注意力图。",
    regions: "一个词元的注意力图", word_attends_to: "“{word}”的注意力权重", unchanged: "遮住或移动图块，比较预测的变化。",
    unchanged_video: "遮住或移动帧，比较预测的变化。",
    no_attention: "这个模型没有注意力层：它是卷积网络。图块仍然可以遮住和移动。",
    board: "画板", board_help: "用鼠标画；或用方向键移动，空格键落笔。",
    pen_color: "颜色", pen_number: "颜色 {number}", shape_circle: "圆", shape_square: "方块", shape_triangle: "三角",
    shape_cross: "十字", shape_ring: "圆环", shape_nothing: "空白",
  },
};
