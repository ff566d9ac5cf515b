"""Broadcast in Chinese: the rundown of an evening programme, its items moved and dropped."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="broadcast",
    lang="zh",
    entities=(
        "要闻", "天气", "球讯", "股市", "专访", "路况", "讣闻", "来信", "竞答", "音乐会", "辩论", "美食", "小品", "快报", "评书", "彩票",
    ),
    ids=(
        "headlines", "weather", "football", "markets", "interview", "traffic", "obituary", "postbag", "quiz", "concert", "debate",
        "recipe", "sketch", "bulletin", "serial", "lottery",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="rundown", args=("item", "seconds"), missing="串联单上没有这个时长的条目。"),
    change=ToolSpec(name="reslot", args=("item",), missing="该条目在串联单上没有改动。"),
    attrs=(
        Attr(
            "slot", "clock", "播出时间",
            says=("播出时间{v}。", "节目{v}开播。", "导播从{v}切进来。"),
            other=("听众几点能听上{entity}？", "{entity}排在今晚哪个点？"),
            none=("今晚这条撤了。", "这条挪到别的晚上。"),
            guesses=("场务想放在{v}，还没定。", "有人在页边写了个{v}。"),
        ),
        Attr(
            "out", "clock", "切出点",
            says=("最晚{v}必须切走。", "切出点{v}，不能拖。", "插播{v}准点到。"),
            other=("{entity}几点之前得收住？", "{entity}要是超时，能超到几点？"),
            none=("后面没有别的，放开说。", "这条不设切出点。"),
        ),
        Attr(
            "presenter", "person", "主持人",
            says=("主持人是{v}。", "话筒前坐的是{v}。", "全程由{v}串场。"),
            other=("{entity}里是谁的声音？", "{entity}谁开口说话？"),
            none=("整条只垫乐，没有人声。", "没安排人主持。"),
            guesses=("听说{v}很想接这条。", "旧通告单上还写着{v}，别用。"),
        ),
        Attr(
            "producer", "person", "制片人",
            says=("制片人是{v}。", "导播间里盯着的是{v}。", "内部通话接{v}。"),
            other=("{entity}有事我给谁打电话？", "{entity}出了岔子算谁头上？"),
            guesses=("看排班，也许轮到{v}。", "换班之前排的是{v}。"),
        ),
        Attr(
            "studio", "room", "直播间",
            says=("直播间用{v}。", "信号从{v}送出。", "这条在{v}做现场。"),
            other=("{entity}是在哪扇门后面做的？", "{entity}的话筒架在哪儿？"),
        ),
        Attr(
            "clip", "code", "素材号",
            says=("素材号{v}。", "从服务器调{v}播放。", "片花已装好，编号{v}。"),
            other=("{entity}我该点哪一条放？", "{entity}里用哪段录音？"),
            none=("这条没有配素材。", "全部现场说，服务器不用动。"),
            guesses=("别放{v}，那是上周剪的。", "预告里写的是{v}，没核对。"),
        ),
        Attr(
            "fee", "amount", "劳务费",
            says=("劳务费{v}元。", "嘉宾几个人分{v}元。", "合同科批了{v}元。"),
            other=("做一次{entity}得花多少？", "{entity}要咱们掏多少钱？"),
            guesses=("经纪人开口要{v}元，太敢说了。", "食堂里传是{v}元。"),
        ),
    ),
    sources=(
        "夜班组", "早间组", "新闻部", "外场车", "值班台", "总编室", "地方台", "播控室", "国际部", "文艺部", "节目办", "资料室",
    ),
    heads=(
        "{entity}排了{qty}秒，{source}提供。",
        "串联单，{source}：{entity}，时长{qty}秒。",
        "据{source}安排，给{entity}留{qty}秒。",
    ),
    change_heads=(
        "{entity}的时段被{source}调过。",
        "串联单改动：{entity}，来自{source}。",
        "紧急更改，{source}动了{entity}。",
    ),
    work=(
        "从串联单上找{entity}，{qty}秒。",
        "{entity}有{qty}秒，核对一下串联单。",
        "{entity}按{qty}秒走，情况怎么样？",
    ),
    changes=(
        "{entity}重新编排一下。",
        "{entity}老在挪，把改动调出来。",
        "拿一下串联单上{entity}的变动。",
    ),
    brief="{source}排{entity}",
    change_brief="{entity}改档",
    fillers=(
        "串词短一点。",
        "片头曲还是老的那首。",
        "彩排时音量偏大。",
        "茶水放在走廊。",
        "提词员要早点拿稿。",
        "不许说脏话。",
        "法务看过稿子了。",
        "翻稿纸轻一点。",
        "上楼顶的电梯坏了。",
        "耳机用完要擦。",
        "人名读音贴在墙上。",
        "字幕会晚几秒。",
        "签到本在门口。",
        "版权整季谈妥了。",
        "车位紧，请坐地铁。",
        "备播盘在抽屉里。",
        "听众爱听鸟叫。",
        "片尾名单谁有空谁念。",
    ),
    user_fact=UserFact(
        "limit",
        "amount",
        "经费上限",
        says=(
            "经费上限是每条{v}元。",
            "每条都别超经费上限{v}元。",
            "财务给我们定的经费上限为{v}元。",
        ),
        changes=(
            "财务来电话了，经费上限现在是{v}元。",
            "原来的经费上限不算了，今晚起按{v}元。",
            "又给我们换了经费上限：{v}元。",
        ),
        asks=(
            "现在经费上限是多少？",
            "财务给我们留的经费上限是哪个数？",
            "说说今晚的经费上限。",
        ),
    ),
    compare=Compare(
        "fee",
        (
            "{entity}的劳务费超没超经费上限，差多少？",
            "财务会不会嫌{entity}的劳务费高：超经费上限了吗，差多少？",
        ),
    ),
    rule=Rule(
        noun="候播室",
        kind="room",
        says=(
            "嘉宾一律在{v}候播。",
            "我们的候播室是{v}，每条都一样。",
            "前台把嘉宾都领到{v}。",
        ),
        exceptions=(
            "在我另说之前，{entity}的嘉宾到{v}等。",
            "{entity}的候播室用{v}。",
            "从今晚起，{entity}的嘉宾安排在{v}。",
        ),
        withdrawals=(
            "{entity}的嘉宾可以跟大家坐一起了。",
            "{entity}单独的候播室取消。",
        ),
        reinstatements=(
            "{entity}单独的候播室重新启用。",
            "{entity}的嘉宾还是回自己那间候播室吧。",
        ),
        once=(
            "只限今晚，{entity}的嘉宾可以坐{v}。",
            "就破例一晚，{entity}的嘉宾去{v}。",
        ),
        asks=(
            "{entity}的嘉宾在哪儿等？",
            "{entity}用哪间候播室？",
            "前台该把{entity}的人领到哪里？",
        ),
    ),
    totals=(
        "目前串联单上的劳务费一共多少？",
        "把看到的劳务费全加上是多少？",
    ),
    across=(
        "论劳务费，{entity}和{other}谁高，高多少？",
        "{entity}和{other}，哪一条的劳务费花得多，多多少？",
    ),
)  # fmt: skip
