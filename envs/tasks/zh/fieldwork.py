"""Fieldwork in Chinese: river stations with near-twin codes, their readings, calibrations and struck-out values."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="fieldwork",
    lang="zh",
    entities=(
        "BRSK", "BRKS", "DNMO", "DMNO", "FALT", "FATL", "GRVE", "GVRE", "HLMN", "HLNM", "KTUS", "KUTS", "PRAL", "PARL", "TOLK", "TOKL",
    ),
    ids=(
        "brsk", "brks", "dnmo", "dmno", "falt", "fatl", "grve", "gvre", "hlmn", "hlnm", "ktus", "kuts", "pral", "parl", "tolk", "tokl",
    ),
    entity_phrase="测站{e}",
    lookup=ToolSpec(name="fieldlog", args=("station", "hours"), missing="该测站没有这段时间的日志。"),
    change=ToolSpec(name="relog", args=("station",), missing="该测站没有更正过的日志。"),
    attrs=(
        Attr(
            "level", "reading", "水位",
            says=("水位{v}米。", "水尺读到{v}米。", "自记井里量得{v}米。"),
            other=("{entity}的河水涨到多高？", "{entity}一带的江面有多高？"),
            none=("水尺结冰，这次没法读。", "自记井干了，测不到数。"),
            guesses=("路过的钓鱼人说差不多{v}米。", "本子上{v}米已划掉，浮子卡住了。"),
        ),
        Attr(
            "turbidity", "reading", "浊度",
            says=("浊度{v}NTU。", "探头报出{v}NTU。", "静置之后，比色管显示{v}NTU。"),
            other=("{entity}的水有多混？", "{entity}的水清不清，数值多少？"),
            none=("比色管碎了，浊度没测。", "这一轮跳过了浊度。"),
            guesses=("划花的比色皿测出{v}NTU，不算数。", "灯没热透时肉眼看像{v}NTU。"),
        ),
        Attr(
            "offset", "reading", "零点修正",
            says=("零点修正{v}厘米。", "校零之后偏差为{v}厘米。", "按率定结果扣除{v}厘米。"),
            other=("{entity}的传感器不准到什么程度？", "{entity}的读数要往回调多少？"),
            guesses=("台架试验像是{v}厘米，还要重做。", "作废：{v}厘米，标定时水没静下来。"),
        ),
        Attr(
            "discharge", "amount", "流量",
            says=("流量{v}立方米每秒。", "断面过水{v}立方米每秒。", "按关系线推得{v}立方米每秒。"),
            other=("{entity}这会儿淌下来多少水？", "{entity}那边过来的水有多大？"),
            guesses=("老曲线会给出{v}立方米每秒，没人信。", "无效：{v}立方米每秒，旋桨缠了水草。"),
        ),
        Attr(
            "service", "date", "检修日",
            says=("上次检修在{v}。", "探头是{v}换的。", "检修日：{v}。"),
            other=("技术员什么时候去{entity}收拾过？", "{entity}哪天做的保养？"),
            none=("装上以后从没检修过。", "维护页是空白的。"),
        ),
        Attr(
            "observer", "person", "观测员",
            says=("本次由{v}读数。", "当班观测员：{v}。", "岸边值守的是{v}。"),
            other=("谁去的{entity}？", "{entity}那趟派了谁？"),
            guesses=("签名缩写像是{v}，铅笔字看不清。", "摆渡的说好像在那儿见过{v}。"),
        ),
        Attr(
            "sheet", "code", "记录号",
            says=("记录号{v}。", "复写联上印着{v}。", "数据录自{v}。"),
            other=("翻活页夹找{entity}，认哪张纸？", "要看{entity}的纸质原件，跟档案室报什么？"),
        ),
    ),
    sources=(
        "上游组", "湖区组", "冰川队", "低地组", "夜巡班", "河道局", "测船", "山脊队", "河口队", "大坝办", "护林站", "大学队",
    ),
    heads=(
        "{entity}过去{qty}小时的日志，{source}上传。",
        "收到{source}的数据：{entity}，时长{qty}小时。",
        "以下为{source}在{entity}录得的{qty}小时记录。",
    ),
    change_heads=(
        "{entity}的部分数据已由{source}作废并更正。",
        "更正日志：{entity}，{source}签字。",
        "实地核查后，{source}替换了{entity}的数值。",
    ),
    work=(
        "下载{entity}最近{qty}小时的日志。",
        "{entity}这{qty}小时有数据传来吗？",
        "打开{entity}，往前看{qty}小时。",
    ),
    changes=(
        "{entity}的日志改过了，重新下载。",
        "{entity}有些数值作废了，取更正件。",
        "照改好的结果重录{entity}。",
    ),
    brief="{source}{entity}日志",
    change_brief="{entity}更正",
    fillers=(
        "进站走堰下小路。",
        "太阳能板已经擦过。",
        "上游有牛下过水。",
        "进水口清了点落叶。",
        "干燥剂该换了。",
        "风不大，天阴。",
        "掀盖子当心马蜂。",
        "挂锁发涩，要上油。",
        "这次没有人为破坏。",
        "照片放在共享盘里。",
        "下水要穿涉水裤。",
        "夜里掉线一次。",
        "外弯的岸还在塌。",
        "备用保险丝在门后。",
        "老乡请我们关好栅栏。",
        "附近有鸟做窝。",
        "缆道没有启用。",
        "静水井冲过淤泥。",
    ),
    user_fact=UserFact(
        "alarm",
        "amount",
        "警戒阈值",
        says=(
            "警戒阈值是{v}立方米每秒。",
            "超过警戒阈值{v}立方米每秒就通知下游。",
            "全程按警戒阈值{v}立方米每秒掌握。",
        ),
        changes=(
            "土已经湿透，警戒阈值改为{v}立方米每秒。",
            "值班水文员把警戒阈值重设成{v}立方米每秒。",
            "即刻起，警戒阈值执行{v}立方米每秒。",
        ),
        asks=(
            "现在按多大的警戒阈值掌握？",
            "眼下警戒阈值是多少？",
            "提醒我警戒阈值定在哪儿了。",
        ),
    ),
    compare=Compare(
        "discharge",
        (
            "{entity}的流量超没超警戒阈值，差多少？",
            "论流量，{entity}越过警戒阈值没有，差值多少？",
        ),
    ),
    rule=Rule(
        noun="高程基面",
        kind="code",
        says=(
            "所有高度统一归算到高程基面{v}。",
            "全站网适用高程基面{v}。",
            "没有特别说明，就以{v}为高程基面。",
        ),
        exceptions=(
            "{entity}暂时改用高程基面{v}。",
            "{entity}的水准点被碰过，先挂到高程基面{v}上。",
            "测量队没完工前，{entity}保持高程基面{v}。",
        ),
        withdrawals=(
            "{entity}的独立高程基面撤销。",
            "{entity}不要再用自己那套高程基面了。",
        ),
        reinstatements=(
            "{entity}的独立高程基面重新有效。",
            "{entity}还是得用回自己那套高程基面。",
        ),
        once=(
            "只限这一趟，{entity}归到高程基面{v}。",
            "{entity}这次用高程基面{v}就行，之后回到统一的。",
        ),
        asks=(
            "{entity}适用哪个高程基面？",
            "{entity}该归到哪个高程基面？",
            "{entity}是对着哪个高程基面测的？",
        ),
    ),
    totals=(
        "打开过的各站，流量加在一起是多少？",
        "到目前为止所有站的流量合计多少？",
    ),
    across=(
        "{entity}和{other}的流量谁大，大多少？",
        "比一比{entity}与{other}：哪边流量大，相差多少？",
    ),
)  # fmt: skip
