"""Incidents in Chinese: services that broke, suspects ruled out, root causes, blame without proof. A train family."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="incident",
    lang="zh",
    entities=(
        "结算服务", "计费服务", "登录服务", "商品目录", "接口网关", "邮件推送", "索引服务", "调度中心", "账务核心", "购物车", "用户档案",
        "回调服务", "缩略图", "推荐引擎", "地理编码", "文件上传",
    ),
    ids=(
        "checkout", "billing", "login", "catalog", "gateway", "mailer", "indexer", "scheduler", "ledger", "basket", "profiles",
        "webhooks", "thumbnails", "recommender", "geocoder", "uploads",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="inspect", args=("service", "minutes"), missing="该服务在该时段没有监控数据。"),
    change=ToolSpec(name="recheck", args=("service",), missing="该服务没有更正过的结论。"),
    attrs=(
        Attr(
            "errors", "amount", "错误数",
            ("共有{v}次请求失败。", "看板上有{v}个报错。", "去重后错误数为{v}。"),
            other=("{entity}有多少调用没成功？", "{entity}返回了多少异常响应？"),
            guesses=("最早群里说有{v}个异常响应，没人核过。", "老面板上的{v}把重试算了两遍，不作数。"),
        ),
        Attr(
            "lost", "part", "丢单数",
            ("有{v}笔订单找不回来了。", "丢单数统计为{v}。", "已按损失核销{v}笔。"),
            other=("{entity}挂掉期间没了多少买卖？", "客户经{entity}买的东西，有多少补不上？"),
            none=("没有发生丢单。", "一笔都没丢，全部补录成功。"),
            guesses=("网上有人说丢了{v}笔，数据并不支持。", "纸面上最坏可能到{v}笔，纯属推算。"),
        ),
        Attr(
            "cause", "code", "根因",
            ("根因确认为{v}。", "二分定位到{v}，复现两次。", "拖垮系统的是{v}。"),
            other=("{entity}这回该怪哪次发布？", "{entity}出毛病到底是因为什么？"),
            none=("根因不明，一直没能复现。", "二分查下来没有结果。"),
            guesses=("群里有人怪{v}，没有证据。", "从时间上看{v}很可疑，但仅凭相关性不能定论。"),
        ),
        Attr(
            "cleared", "code", "已排除变更",
            ("已排除{v}的嫌疑。", "回滚{v}后毫无变化，可以划掉。", "当时{v}还没上线，与它无关。"),
            other=("{entity}这边哪个疑点不用再看了？", "证据表明{entity}的事跟哪次发布没关系？"),
            none=("一个嫌疑都没能排除。", "目前什么都还不能划掉。"),
            excluded=True,
        ),
        Attr(
            "onset", "clock", "发生时间",
            ("首条告警在{v}触发。", "按曲线看，发生时间为{v}。", "大盘从{v}起飘红。"),
            other=("{entity}几点出的毛病？", "{entity}什么时候开始不对劲的？"),
            guesses=("有客户坚称{v}左右就坏了，与曲线不符。", "客服印象里接近{v}，未经核实。"),
        ),
        Attr(
            "latency", "reading", "峰值延迟",
            ("峰值延迟{v}秒。", "最慢的一次用了{v}秒。", "最慢分位冲到{v}秒。"),
            other=("{entity}最糟时卡到什么程度？", "等{entity}返回，最久要多长？"),
        ),
        Attr(
            "lead", "person", "故障指挥",
            ("故障指挥是{v}。", "现场由{v}统一协调。", "值班电话打给了{v}，应急会也由其主持。"),
            other=("{entity}那次是谁居中拍板？", "{entity}的复盘报告署谁的名？"),
            none=("一直没人站出来牵头。", "全程没有故障指挥。"),
        ),
    ),
    sources=(
        "链路追踪", "日志平台", "状态面板", "告警通道", "平台运维", "夜班值守", "指标大盘", "边缘小组", "数据小组", "数据库组", "网络监控",
        "灰度探针",
    ),
    heads=(
        "来自{source}：{entity}最近{qty}分钟的情况。",
        "以下是{source}对{entity}的排查，窗口{qty}分钟。",
        "这是{source}翻查{entity}近{qty}分钟数据的结果。",
    ),
    change_heads=(
        "来自{source}的更正，关于{entity}。",
        "刚才{source}推翻了自己对{entity}的结论。",
        "重新查过{entity}后，{source}得出了不同结果。",
    ),
    work=(
        "查一下{entity}，看最近{qty}分钟。",
        "{entity}出什么事了？看一下过去{qty}分钟。",
        "把{entity}这{qty}分钟的监控数据拉出来。",
    ),
    changes=(
        "{entity}有更正，取来看看。",
        "有人重跑了{entity}的数据，把结果拿来。",
        "取一下{entity}更正后的结论。",
    ),
    brief="{source}排查{entity}",
    change_brief="{entity}已更正",
    fillers=(
        "磁盘压力全程平稳。",
        "各地域名解析一致。",
        "证书离到期还早。",
        "自动扩容按预期加了节点。",
        "垃圾回收停顿属于正常水平。",
        "主从复制没有明显延迟。",
        "外部拨测一直正常。",
        "功能开关没有动过。",
        "队列积压自行消化了。",
        "缓存命中率短暂下降。",
        "有两台机器的健康检查抖动过。",
        "边车日志杂乱但无害。",
        "状态页由人工更新。",
        "重试掩盖了部分症状。",
        "告警文案的后续改进还没结项。",
        "复盘时间线请对事不对人。",
        "限流行为与预案一致。",
        "可用区之间没有丢包。",
    ),
    user_fact=UserFact(
        "allowed",
        "amount",
        "错误预算",
        says=("每个服务的错误预算是{v}次。", "我们按{v}次的错误预算运行。", "复盘时以错误预算{v}次为准。"),
        changes=("错误预算刚改成{v}次。", "前面说的作废，错误预算现在是{v}次。", "管理层把错误预算重设为{v}次。"),
        asks=("我们现在用的错误预算是多少？", "再说一遍，错误预算以哪个为准？", "当前错误预算是几次？"),
    ),
    compare=Compare(
        "errors",
        (
            "{entity}的错误数有没有突破错误预算，差多少？",
            "拿{entity}的错误数对照错误预算：超没超，差距多少？",
        ),
    ),
    rule=Rule(
        "作战室",
        "room",
        says=("一出故障，作战室就设在{v}。", "常设作战室是{v}。", "大家都到{v}碰头，那里就是作战室。"),
        exceptions=(
            "处理{entity}的人改用{v}作战室，直到我另说。",
            "{entity}例外：作战室设{v}。",
            "负责{entity}的同事有自己的作战室，在{v}。",
        ),
        withdrawals=("{entity}单独的作战室撤了，跟大家一起。", "取消{entity}的作战室例外。"),
        reinstatements=("恢复{entity}的作战室例外。", "{entity}那组人又用回自己的作战室。"),
        once=("只这一次，{entity}的作战室放在{v}。", "今晚{entity}的作战室借{v}用，过后照旧。"),
        asks=("处理{entity}的人去哪个作战室？", "{entity}再出问题，作战室是哪间？", "{entity}的作战室在哪儿？"),
    ),
    totals=("到目前查过的各服务，错误数合计多少？", "我们查过的所有服务一共失败了多少次请求？"),
    across=("{entity}和{other}，哪个错误数更多，多出多少？", "错误数比一比，{entity}对{other}：哪个大，差多少？"),
)  # fmt: skip
