/**
 * Everything the page itself says, in both languages. What a view says stands in the view.
 *
 *   word("close")                        in the language spoken now
 *   word("tokens", { count: 3 })         "{count} tokens" with the value in its place
 */

const STRINGS = {
  en: {
    skip: "Skip to the content",
    views: "Views",
    run: "run",
    second: "second run",
    language: "中文",
    language_name: "Switch to Chinese",
    look_light: "light",
    look_dark: "dark",
    look_system: "as the system",
    look_name: "Light or dark",
    help: "What am I looking at?",
    downloads: "Download",
    code: "the code for this",
    code_help: "These lines of Python give what is shown above. Run them where `seq2see.load` finds the run by this name.",
    copy: "copy",
    copied: "copied",
    copy_by_hand: "press Ctrl-C",
    loading: "computing …",
    view_not_supported: "This view has nothing to show of this run.",
    not_ready: "This run has no model yet: one is kept at the first evaluation. Meanwhile “Runs” shows how training goes.",
    supported_runs: "It suits: {names}.",
    no_runs: "There is no run here.",
    no_view: "There is no view called “{name}”.",
    unauthorized: "The server does not know this browser. Open the link again that the terminal shows.",
    no_server: "The server does not answer. Is it still running in the terminal?",
    busy: "The server has too much to do at this moment. Try again.",
    not_saved: "This page was saved without this answer. `seq2see explore` computes it.",
    bug: "Something went wrong that should not have.",
    saved_page: "saved page: shows what was stored with it",
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
    upload: "an image of your own",
    upload_video: "a video of your own: a GIF, or several images",
    too_large: "All files together may have 10 MB.",
    not_kept: "This is too large to be kept in the address: other views do not see it.",
    reference: "Truly: {truth}",
    no_truth_known: "Nobody has said what is to be seen here.",
    series: "series",
    series_values: "values",
    series_guesses: "what the model said of the next; dashed: how it goes on",
    series_ahead: "how it goes on",
    time: "time",
  },
  zh: {
    skip: "跳到正文",
    views: "视图",
    run: "训练",
    second: "另一次训练",
    language: "English",
    language_name: "切换到英文",
    look_light: "浅色",
    look_dark: "深色",
    look_system: "跟随系统",
    look_name: "浅色或深色",
    help: "我看到的是什么？",
    downloads: "下载",
    code: "对应的代码",
    code_help: "下面的 Python 代码得到上面显示的内容。请在 `seq2see.load` 能按此名称找到这次训练的目录里运行。",
    copy: "复制",
    copied: "已复制",
    copy_by_hand: "请按 Ctrl-C",
    loading: "计算中……",
    view_not_supported: "对这次训练，这个视图没有可显示的内容。",
    not_ready: "这次训练还没有模型：第一次评测时才会存下。在此之前，“训练过程”可以看到进展。",
    supported_runs: "适用于：{names}。",
    no_runs: "这里没有任何训练。",
    no_view: "没有名为“{name}”的视图。",
    unauthorized: "服务器不认识这个浏览器。请重新打开终端里显示的链接。",
    no_server: "服务器没有回应。它还在终端里运行吗？",
    busy: "服务器此刻太忙，请再试一次。",
    not_saved: "保存本页时没有存下这个答案。用 `seq2see explore` 可以计算。",
    bug: "出现了不该出现的问题。",
    saved_page: "已保存的页面：只显示随页存下的内容",
    value: "值",
    row: "行",
    column: "列",
    larger: "放大",
    smaller: "缩小",
    fit: "全图",
    text: "文本",
    target: "目标文本",
    image: "测试图片",
    video: "测试短片",
    upload: "上传自己的图片",
    upload_video: "上传自己的短片：一个 GIF，或几张图片",
    too_large: "所有文件合计不能超过 10 MB。",
    not_kept: "内容太大，无法保存在地址里，其他视图看不到它。",
    reference: "正确的说法：{truth}",
    no_truth_known: "没有人说过这里有什么。",
    series: "序列",
    series_values: "数值",
    series_guesses: "模型对下一个值的预测；虚线：往后的预测",
    series_ahead: "往后的预测",
    time: "时刻",
  },
};

let language = "en";

/** Speak Chinese or English from now on; anything else is English. */
export function setLanguage(wanted) {
  language = String(wanted).toLowerCase().startsWith("zh") ? "zh" : "en";
  document.documentElement.lang = language;
}

export function currentLanguage() {
  return language;
}

/** A word of the page, or of a view's own table (`{en: {...}, zh: {...}}`), with values in the places of `{name}`. */
export function t(key, values = {}, table = STRINGS) {
  const text = table[language]?.[key] ?? STRINGS[language][key] ?? key;
  return text.replace(/\{(\w+)\}/g, (place, name) => (name in values ? String(values[name]) : place));
}
