"""Tenancy in Chinese: clauses of a lease with charges, deposits and waivers, excepted from a model form and put back."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="tenancy",
    lang="zh",
    entities=(
        "宠物条款", "转租条款", "供暖条款", "绿化条款", "维修条款", "保险条款", "洗衣条款", "储物条款", "吸烟条款",
        "阳台条款", "单车条款", "访客条款", "噪声条款", "粉刷条款", "天线条款", "烧烤条款",
    ),
    ids=(
        "pets", "subletting", "heating", "gardening", "repairs", "insurance", "laundry", "storage", "smoking", "balconies", "bicycles",
        "guests", "noise", "painting", "antennas", "barbecues",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="clause", args=("topic", "page"), missing="租约该页没有此项条款。"),
    change=ToolSpec(name="addendum", args=("topic",), missing="没有涉及该条款的补充协议。"),
    attrs=(
        Attr(
            "charge", "amount", "月费",
            ("每月收取{v}元。", "承租人应按月支付{v}元。", "月费为{v}元。"),
            other=("{entity}平时要花多少钱？", "{entity}对应的价钱是多少？"),
            guesses=("前任租客记得月费是{v}元，没有凭证。", "据传收的是{v}元。"),
        ),
        Attr(
            "bond", "amount", "押金",
            ("出租人留存{v}元作为押金。", "押金已交{v}元。", "为防损坏，存入{v}元。"),
            other=("因为{entity}可以扣下多少钱？", "按{entity}有多少钱压在房东手里？"),
            none=("出租人不收押金。", "明确约定免押。"),
            guesses=("邻居说押金有{v}元，无从查证。", "押金从前或许是{v}元，收据丢了。"),
        ),
        Attr(
            "effect", "date", "生效日",
            ("自{v}起施行。", "双方从{v}起受其约束。", "生效日为{v}。"),
            other=("{entity}什么时候开始算数？", "{entity}打哪天管用的？"),
        ),
        Attr(
            "waiver", "code", "豁免号",
            ("附豁免书{v}。", "豁免已获准，文号{v}。", "豁免号为{v}。"),
            other=("哪份文件让我们不受{entity}限制？", "我们不必遵守{entity}，凭的是什么字号？"),
            none=("未给予豁免。", "申请过豁免，被驳回。"),
            guesses=("门卫提过有个豁免{v}，没见着纸面。", "可能另有豁免{v}，登记簿上没有。"),
        ),
        Attr(
            "signatory", "person", "签署人",
            ("页脚有{v}的签字。", "当面签名的是{v}。", "签署人为{v}。"),
            other=("{entity}是谁书面答应的？", "{entity}末尾落的是谁的款？"),
            guesses=("字迹像是{v}的，未经鉴定。", "动笔的或许是{v}。"),
        ),
        Attr(
            "address", "address", "地址",
            ("仅涉及{v}。", "地址为{v}。", "出租的房产位于{v}。"),
            other=("{entity}说的是哪栋楼？", "{entity}管到什么地方？"),
        ),
        Attr(
            "closing", "clock", "截止时刻",
            ("每天允许到{v}为止。", "相关使用须在{v}停止。", "截止时刻为{v}。"),
            other=("照{entity}最晚可以到几点？", "照{entity}晚上什么时候得收场？"),
            none=("未设截止时刻。", "哪一天都不限钟点。"),
        ),
    ),
    sources=(
        "大成律所", "方正法务", "新城置业", "大方信托", "文化苑", "天平律所", "公正法务", "合力物业", "东门家园",
        "和平律所", "安居房产", "中和信托",
    ),
    heads=(
        "{entity}载于{source}租约第{qty}页。",
        "第{qty}页，{source}拟定的{entity}如下。",
        "摘自{source}租约第{qty}页：{entity}。",
    ),
    change_heads=(
        "补充协议由{source}出具，变更{entity}。",
        "{entity}的补充协议，出自{source}。",
        "经{source}与承租人商定，{entity}改动如下。",
    ),
    work=(
        "把第{qty}页的{entity}念给我听。",
        "翻到第{qty}页，打开{entity}。",
        "第{qty}页写了什么？调出{entity}。",
    ),
    changes=(
        "补充协议到了，取{entity}的那份。",
        "看看补充协议怎么改{entity}。",
        "双方签了{entity}的补充协议，打开它。",
    ),
    brief="{source}租约{entity}",
    change_brief="{entity}变更",
    fillers=(
        "标题仅为阅读方便，不影响解释。",
        "通知须以书面形式作出。",
        "各项期限均须严格遵守。",
        "租约其余部分不受影响。",
        "无正当理由不得拒绝同意。",
        "正常磨损不算损坏。",
        "双方均已咨询各自的律师。",
        "本约不减损任何法定权利。",
        "口头承诺无效。",
        "物品清单是合同的组成部分。",
        "争议先行调解。",
        "一式两份，具有同等效力。",
        "共同承租人承担连带责任。",
        "前后文本不一致的，以后签者为准。",
        "出租人保证承租人安宁居住。",
        "交接钥匙时抄表。",
        "违约方应在合理期限内改正。",
        "未尽事宜由双方另行商定。",
    ),
    user_fact=UserFact(
        "ceiling",
        "amount",
        "客户限额",
        says=("按委托人的意思，客户限额为{v}元。", "客户限额是每月{v}元。", "办事时守住客户限额{v}元。"),
        changes=("有新指示：客户限额改成{v}元。", "客户限额重新谈过，今天起{v}元。", "划掉旧的客户限额，写上{v}元。"),
        asks=("按最新指示，客户限额是多少？", "客户限额请念一遍。", "我受哪个客户限额约束？"),
    ),
    compare=Compare(
        "charge",
        (
            "{entity}的月费是否超出客户限额，相差多少？",
            "拿客户限额衡量{entity}的月费：超没超，差多少？",
        ),
    ),
    rule=Rule(
        noun="适用范本",
        kind="code",
        says=(
            "全文以{v}为适用范本。",
            "除单列者外，适用范本均为{v}。",
            "逐条解释都依{v}，它是适用范本。",
        ),
        exceptions=(
            "{entity}单列：适用范本为{v}。",
            "{entity}除外，撤销之前以{v}为适用范本。",
            "我把{entity}划出来，适用范本另取{v}。",
        ),
        withdrawals=(
            "{entity}的单列撤回。",
            "我收回对{entity}的除外，仍从共同的适用范本。",
        ),
        reinstatements=(
            "{entity}的单列恢复效力。",
            "撤得太早了，{entity}照旧除外。",
        ),
        once=(
            "仅这一次解读，{entity}可依{v}为适用范本。",
            "不作先例，只此一回：{entity}的适用范本取{v}。",
        ),
        asks=(
            "{entity}该按哪个适用范本解释？",
            "律师问{entity}的适用范本是什么。",
            "就目前而言，{entity}的适用范本是哪个？",
        ),
    ),
    totals=(
        "目前打开过的各条，月费合计多少？",
        "把看过的每一条月费相加，承租人一共要付多少？",
    ),
    across=(
        "{entity}与{other}的月费孰高，高出多少？",
        "就月费而言，{entity}和{other}哪个更高，差多少？",
    ),
)  # fmt: skip
