"""Everything a report page says, in both of its languages."""

from __future__ import annotations

TEXTS = {
    "report": ("run report", "训练报告"),
    "this_run": ("This run", "本次训练"),
    "curves": ("Curves", "训练曲线"),
    "scores": ("Scores", "评测结果"),
    "samples": ("The same examples, again and again", "同样的例子，不同的阶段"),
    "predictions": ("Best and worst predictions", "最好与最差的译文"),
    "confusion": ("Which label is taken for which", "哪个标签被当成哪个"),
    "confusion_note": (
        "Rows: the truth. Columns: the answers. The darker, the larger a share of its row.",
        "行为正确标签，列为模型的回答；颜色越深，在该行所占比例越大。",
    ),
    "mistakes": ("The surest mistakes", "最有把握的错误"),
    "mistakes_note": (
        "Wrong answers on the test texts, those with the highest probability first; all answers are in eval/.",
        "测试文本上的错误回答，概率最高的在前；全部回答见 eval/。",
    ),
    "batch": ("What the model is shown", "模型看到的图片"),
    "batch_note": (
        "Images of the first step: as they are stored, and below as the model sees them.",
        "第一步训练所用的图片：上为原图，下为模型看到的样子。",
    ),
    "confused": ("The commonest confusions", "最常见的混淆"),
    "confused_note": (
        "Test images: truth → answer, and how many there were; below each, how sure the model was.",
        "测试图片：正确标签 → 回答，以及数量；每张图下为模型的把握。",
    ),
    "worst_images": ("The surest mistakes", "最有把握的错误"),
    "worst_images_note": (
        "Test images: truth → answer and its probability, the highest first; all answers are in eval/.",
        "测试图片：正确标签 → 回答及其概率，概率最高的在前；全部回答见 eval/。",
    ),
    "patches_note": (
        "The brighter, the more a patch counts. Layer by layer: where the class token looks (without one, where all "
        "patches look on average), mean of the heads. Rollout follows the attention through all layers back to the "
        "image.",
        "越亮的图块越重要。逐层显示类别词元看向哪里（没有类别词元时，为所有图块的平均），取各头的平均；"
        "最后一行把注意力穿过所有层追溯到图片。",
    ),
    "regions_note": (
        "For each word of a caption, where the model looked when it wrote it: the brighter, the more; last layer, mean "
        "of the heads.",
        "说明文字中的每个词写出时，模型在看图片的哪里：越亮越多；取最后一层各头的平均。",
    ),
    "frames_note": (
        "A few videos. Below each frame stand the words for which the model looked at it the most, in the last layer.",
        "几段短片。每一帧下面是模型写出时看这一帧最多的词，取最后一层。",
    ),
    "label": ("label", "标签"),
    "cases": ("cases", "例数"),
    "precision": ("precision", "精确率"),
    "recall": ("recall", "召回率"),
    "f1": ("F1", "F1 值"),
    "test_accuracy": ("right answers % (test)", "回答正确率 %（测试集）"),
    "test_macro_f1": ("macro F1 % (test)", "宏平均 F1 %（测试集）"),
    "classes_note": ("{split}: {right} % right, macro F1 {f1} %", "{split}：正确率 {right} %，宏平均 F1 {f1} %"),
    "answered": ("answer", "回答"),
    "probability": ("probability", "概率"),
    "token_losses": ("What surprises the model", "模型对什么感到意外"),
    "attention": ("Where the model looks", "模型在看哪里"),
    "zipf": ("How often n-grams occur", "n 元组出现的次数"),
    "forecasts": ("The series and its forecasts", "序列与预测"),
    "forecasts_note": (
        "Test values, and what was said of each when the series was known up to so many steps before it.",
        "测试值，以及只知道若干步之前的序列时对它的预测。",
    ),
    "forecast_by": ("forecast by", "预测方法"),
    "forecast_model": ("this model", "本模型"),
    "forecast_persistence": ("the last value", "最后一个值"),
    "forecast_linear": ("least squares", "最小二乘"),
    "ahead": ("{steps} ahead", "向前 {steps} 步"),
    "errors_note": (
        "Root of the mean squared error on {values} test values, in the units of the series; τ values are seen.",
        "{values} 个测试值上的均方根误差，单位与序列相同；τ 为能看到的值的个数。",
    ),
    "recipe": ("The complete recipe", "完整配方"),
    "environment": ("Environment", "运行环境"),
    "data": ("data", "数据"),
    "read": ("pairs read = kept + skipped + rejected", "读入句对 = 保留 + 跳过 + 拒绝"),
    "read_lines": ("lines read = kept + skipped + rejected", "读入行数 = 保留 + 跳过 + 拒绝"),
    "read_images": ("images read = kept + skipped + rejected", "读入图片 = 保留 + 跳过 + 拒绝"),
    "tokens": ("tokens", "词元"),
    "encoder": ("encoder", "编码器"),
    "decoder": ("decoder", "解码器"),
    "weights": ("weights", "参数量"),
    "training": ("training", "训练"),
    "time": ("training time (h:mm:ss)", "训练用时（时:分:秒）"),
    "best_loss": ("best valid loss", "最低验证损失"),
    "accuracy": ("right guesses, valid", "猜对的比例（验证集）"),
    "steps": ("steps", "步数"),
    "command": ("started with", "启动命令"),
    "again": ("run it again", "重新训练"),
    "use": ("use the model", "使用模型"),
    "unfinished": (
        "This run is not finished; the same command goes on where it stopped.",
        "本次训练尚未结束；再次运行同一命令即可从中断处继续。",
    ),
    "curves_note": (
        "Faint: every step. Bold: mean over a fiftieth of the run. Orange: validation. "
        "The gradient norm is measured before clipping, at the dashed line; the corner shows the last value. "
        "The training loss includes label smoothing and dropout, the validation loss does not.",
        "浅色线为每一步的值，粗线为滑动平均（窗口为全程的五十分之一），橙色为验证集。"
        "梯度范数在裁剪之前测得，虚线为裁剪的界限；右上角为最后的值。"
        "训练损失包含标签平滑和 dropout，验证损失不含。",
    ),
    "counted": ("{orders} orders, counted in one pass", "一遍数完 {orders} 阶"),
    "order": ("order", "阶数"),
    "kinds": ("kinds of n-grams", "n 元组种数"),
    "valid_perplexity": ("valid perplexity", "验证集困惑度"),
    "unseen": ("of the valid text never counted", "验证文本中没数到过的"),
    "once": ("seen once", "只出现一次"),
    "slope": ("slope", "斜率"),
    "orders_note": (
        "A longer context tells more, if it was ever seen: with the order the perplexity falls, and the share of "
        "n-grams that nobody has counted grows. What was not seen is guessed from shorter contexts.",
        "上下文越长，能说明的越多，前提是曾经见过：阶数增大时困惑度下降，而没有数到过的 n 元组越来越多。"
        "没见过的，由更短的上下文来猜。",
    ),
    "zipf_note": (
        "Frequency over rank, both logarithmic. Single words come near a straight line of slope -1 (Zipf); the longer "
        "the n-grams, the flatter the line, and the more of them occur only once.",
        "横轴为名次，纵轴为出现次数，均为对数坐标。单个词接近斜率 -1 的直线（Zipf 定律）；n 元组越长，线越平，"
        "只出现一次的也越多。",
    ),
    "no_scores": (
        "Not evaluated yet. This adds scores and predictions:",
        "尚未评测。运行以下命令可得到评测结果与译文：",
    ),
    "split": ("split", "数据集"),
    "pairs": ("pairs", "句对"),
    "exact_match": ("exact match %", "完全一致 %"),
    "d2l_bleu": ("notes' BLEU", "讲义版 BLEU"),
    "bleu_tokenized": ("BLEU, lower-cased and tokenized", "BLEU（小写、已分词）"),
    "word_error_rate": ("wrong words %", "错误的词 %"),
    "phoneme_error_rate": ("wrong phonemes %", "音素错误率 %"),
    "word_error_rate_with_stress": ("wrong words %, stress counted", "错误的词 %（计重音）"),
    "phoneme_error_rate_with_stress": ("wrong phonemes %, stress counted", "音素错误率 %（计重音）"),
    "perplexity_token": ("perplexity per token ({split}, truth given)", "每词元困惑度（{split}，给定参考文本）"),
    "perplexity_word": ("perplexity per word ({split}, truth given)", "每词困惑度（{split}，给定参考文本）"),
    "perplexity_character": (
        "perplexity per character ({split}, truth given)",
        "每字符困惑度（{split}，给定参考文本）",
    ),
    "bits": ("bits per character", "每字符比特数"),
    "token_accuracy": ("right tokens % (truth given)", "词元正确率 %（给定参考文本）"),
    "unknown": (
        "unknown tokens %; guessing <unk> is easy, so these figures are too good",
        "未知词元 %；猜 <unk> 很容易，所以这些数字偏好",
    ),
    "error_rate": ("alignment error rate of attention", "注意力的对齐错误率"),
    "heads": ("layer {layer}, head {heads}; chosen on valid", "第 {layer} 层，第 {heads} 头；在验证集上选出"),
    "signatures": (
        "sacreBLEU signatures, without which scores cannot be compared",
        "sacreBLEU 签名（比较分数时必须一致）",
    ),
    "samples_note": (
        "What was held out to validate on, asked at every evaluation while the model learned. "
        "Marked: what the reference does not say.",
        "训练过程中每次验证时都问同样的问题。标记部分与参考答案不同。",
    ),
    "step": ("step", "步"),
    "source": ("source", "原文"),
    "reference": ("reference", "参考答案"),
    "output": ("output", "模型输出"),
    "best": ("Best", "最好"),
    "worst": ("Worst", "最差"),
    "predictions_note": (
        "Test sentences by chrF; of equally good ones the longest. log p is how the model ranks its answer.",
        "测试集句子按 chrF 排序，分数相同时取较长者。log p 为模型给自己输出的得分。",
    ),
    "attention_note": (
        "Each row shows, for one word being written, how its attention is shared among the source words.",
        "每一行对应一个正在生成的词，颜色表示它的注意力在原文各词上的分配。",
    ),
    "masked_accuracy": ("hidden tokens guessed right % (test)", "被遮住的词元猜对的比例 %（测试集）"),
    "masked_perplexity": ("perplexity per hidden token (test)", "每个被遮住词元的困惑度（测试集）"),
    "next_sentence_accuracy": ("right about whether a text follows % (test)", "后文是否相接判断正确的比例 %（测试集）"),
    "token_losses_note": (
        "Test text with each token hidden in turn, and nothing else: the darker, the less the model expected it. "
        "The number, −log p, shows when you point at a token.",
        "测试文本：每次只遮住一个词元；颜色越深，模型越没有料到。鼠标指向词元可看到 −log p。",
    ),
    "generated_token_losses_note": (
        "Test text, each token guessed from those before it in its line here: the darker, the less the model expected "
        "it. The number, −log p, shows when you point at a token.",
        "测试文本：每个词元根据本段中它前面的词元来猜；颜色越深，模型越没有料到。鼠标指向词元可看到 −log p。",
    ),
    "recipe_note": ("Everything that decides this run, as TOML", "决定本次训练的一切设置（TOML）"),
    "nothing": ("(nothing)", "（空）"),
}  # fmt: skip
"""Every text of the page: English, Chinese."""
