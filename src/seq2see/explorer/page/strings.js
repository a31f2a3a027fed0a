/**
 * The texts of the page in both languages. Each view has a table of its own texts.
 *
 *   t("close")                        in the current language
 *   t("tokens", { count: 3 })         "{count} tokens" with the value inserted
 */

const STRINGS = {
  en: {
    skip: "Skip to the content",
    views: "Views",
    run: "run",
    second: "second run",
    language: "中文",
    language_name: "Switch to Chinese",
    theme_light: "light",
    theme_dark: "dark",
    theme_system: "system",
    theme_name: "Theme",
    help: "What am I looking at?",
    downloads: "Download",
    code: "the Python code",
    code_help: "This Python code computes the results shown above. Run it in a folder where `seq2see.load` finds the run by this name.",
    copy: "copy",
    copied: "copied",
    copy_by_hand: "press Ctrl-C",
    loading: "computing …",
    view_not_supported: "This view does not support this run.",
    not_ready: "This run has no checkpoint before its first evaluation. Until then, “Runs” shows the progress of training.",
    supported_runs: "Supported runs: {names}.",
    no_runs: "There are no runs.",
    no_view: "There is no view called “{name}”.",
    unauthorized: "This browser is not logged in. Open the link that the terminal shows again.",
    no_server: "The server does not answer. Is it still running in the terminal?",
    busy: "The server is busy. Try again.",
    not_saved: "This result is not stored in the saved page. `seq2see explore` computes it.",
    bug: "An internal error occurred.",
    saved_page: "saved page: shows stored results only",
    value: "value",
    row: "row",
    column: "column",
    larger: "larger",
    smaller: "smaller",
    fit: "fit",
    text: "text",
    target: "target",
    image: "test image",
    video: "test video",
    upload: "your own image",
    upload_video: "your own video: a GIF, or several images",
    too_large: "The total size of all files is limited to 10 MB.",
    not_in_link: "This is too large to be stored in the address: other views cannot use it.",
    reference: "Reference: {truth}",
    no_reference: "This input has no reference.",
    series: "series",
    series_values: "values",
    series_predictions: "one-step predictions; dashed: forecast",
    series_forecast: "forecast",
    time: "time",
  },
  zh: {
    skip: "跳到正文",
    views: "视图",
    run: "运行",
    second: "另一个运行",
    language: "English",
    language_name: "切换到英文",
    theme_light: "浅色",
    theme_dark: "深色",
    theme_system: "跟随系统",
    theme_name: "主题",
    help: "我看到的是什么？",
    downloads: "下载",
    code: "对应的 Python 代码",
    code_help: "下面的 Python 代码计算上面显示的结果。请在 `seq2see.load` 能按此名称找到这个运行的目录里运行。",
    copy: "复制",
    copied: "已复制",
    copy_by_hand: "请按 Ctrl-C",
    loading: "计算中……",
    view_not_supported: "这个视图不适用于这个运行。",
    not_ready: "这个运行还没有检查点：第一次评测时才会保存。在此之前，“训练过程”可以看到进展。",
    supported_runs: "适用于：{names}。",
    no_runs: "没有任何运行。",
    no_view: "没有名为“{name}”的视图。",
    unauthorized: "这个浏览器没有登录。请重新打开终端里显示的链接。",
    no_server: "服务器没有回应。它还在终端里运行吗？",
    busy: "服务器正忙，请再试一次。",
    not_saved: "保存的页面里没有这个结果。用 `seq2see explore` 可以计算。",
    bug: "发生了内部错误。",
    saved_page: "已保存的页面：只显示已存下的结果",
    value: "值",
    row: "行",
    column: "列",
    larger: "放大",
    smaller: "缩小",
    fit: "全图",
    text: "文本",
    target: "目标文本",
    image: "测试图片",
    video: "测试视频",
    upload: "上传自己的图片",
    upload_video: "上传自己的视频：一个 GIF，或几张图片",
    too_large: "所有文件合计不能超过 10 MB。",
    not_in_link: "内容太大，无法保存在地址里，其他视图看不到它。",
    reference: "参考答案：{truth}",
    no_reference: "这个输入没有参考答案。",
    series: "序列",
    series_values: "数值",
    series_predictions: "对下一个值的预测；虚线：往后多步的预测",
    series_forecast: "往后多步的预测",
    time: "时间步",
  },
};

let language = "en";

/** Set the language: Chinese, or English for every other code. */
export function setLanguage(code) {
  language = String(code).toLowerCase().startsWith("zh") ? "zh" : "en";
  document.documentElement.lang = language;
}

export function currentLanguage() {
  return language;
}

/** A text of the page, or of a view's own table (`{en: {...}, zh: {...}}`), with values inserted for `{name}`. */
export function t(key, values = {}, table = STRINGS) {
  const text = table[language]?.[key] ?? STRINGS[language][key] ?? key;
  return text.replace(/\{(\w+)\}/g, (placeholder, name) => (name in values ? String(values[name]) : placeholder));
}
