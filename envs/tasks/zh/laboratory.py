"""Laboratory in Chinese: samples with twin codes, colony counts, deviations at the bench, and the cold store they go back to."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="laboratory",
    lang="zh",
    # Twins side by side: two digits or letters swapped, or a character that looks alike.
    entities=(
        "KX4471", "KX4417", "PV3086", "PV3806", "MR9162", "NR9162", "TS5590", "TS5950", "LN2738", "LN2783", "VZ6045", "WZ6045",
        "RT7813", "TR7813", "QO1604", "QO1640",
    ),
    ids=(
        "kx4471", "kx4417", "pv3086", "pv3806", "mr9162", "nr9162", "ts5590", "ts5950", "ln2738", "ln2783", "vz6045", "wz6045",
        "rt7813", "tr7813", "qo1604", "qo1640",
    ),
    entity_phrase="样品{e}",
    lookup=ToolSpec(name="assay", args=("sample", "runs"), missing="没有该样品在该轮数下的检测记录。"),
    change=ToolSpec(name="retest", args=("sample",), missing="该样品没有复测记录。"),
    attrs=(
        Attr(
            "colonies", "amount", "菌落数",
            ("平板上长出{v}个菌落。", "过夜后菌落数为{v}。", "琼脂上数得{v}个。"),
            other=("{entity}养出了多少微生物？", "{entity}清点下来是多少？"),
            guesses=("粗看有{v}个菌落，没人细数。", "软件识别到{v}个，标为不可靠。"),
        ),
        Attr(
            "dilution", "amount", "稀释倍数",
            ("按一比{v}稀释。", "稀释倍数是{v}。", "缓冲液兑到{v}倍。"),
            other=("{entity}冲得有多淡？", "{entity}掺水掺到什么程度？"),
            none=("未经稀释，直接涂板。", "没有稀释倍数，用的是原液。"),
        ),
        Attr(
            "conductivity", "reading", "电导率",
            ("电导率稳定在{v}。", "探头测得电导率为{v}。", "室温下的电导率：{v}。"),
            other=("{entity}的导电本领有多强？", "仪表在{entity}上显示多少？"),
            guesses=("校准前探头报过{v}，不作数。", "照理论推算应在{v}左右。"),
        ),
        Attr(
            "sampled", "date", "采样日",
            ("样瓶上标的是{v}。", "野外取样在{v}。", "采样日为{v}。"),
            other=("{entity}哪天收集来的？", "{entity}是什么时候从现场带回来的？"),
        ),
        Attr(
            "incubation", "clock", "入箱时间",
            ("培养箱{v}关的门。", "放进培养箱是在{v}。", "入箱时间记为{v}。"),
            other=("{entity}几点开始保温的？", "{entity}从什么钟点起恒温放着？"),
            guesses=("夜里值班的猜是{v}进的培养箱，没有记录。", "墨迹洇开了，培养一栏像是{v}。"),
        ),
        Attr(
            "deviation", "code", "偏差号",
            ("已开偏差{v}。", "该轮按偏差{v}处理。", "偏差号为{v}。"),
            other=("{entity}出的岔子归哪份报告？", "{entity}那次事故备案在哪一条？"),
            none=("未开偏差。", "全程按规程走，无偏差。"),
            guesses=("便签上写着{v}，也许是个偏差。", "页边提到偏差{v}，已划掉。"),
        ),
        Attr(
            "analyst", "person", "分析员",
            ("加样是{v}做的。", "坐在操作台前的是{v}。", "分析员是{v}。"),
            other=("{entity}经的谁的手？", "谁处理过{entity}？"),
        ),
    ),
    sources=(
        "一号台", "二号台", "洁净间", "理化组", "培养室", "同位素室", "微生物组", "夜班组", "中试间", "质控室",
        "标准室", "水质组",
    ),
    heads=(
        "{entity}在{source}测了{qty}轮。",
        "检测单，{source}：{entity}，{qty}轮。",
        "共{qty}轮，{source}已做完{entity}。",
    ),
    change_heads=(
        "复测单，{source}：{entity}。",
        "{entity}由{source}重做了一遍。",
        "重做完毕，{source}交回{entity}的数据。",
    ),
    work=(
        "调{entity}的检测单，{qty}轮的那份。",
        "{entity}做了{qty}轮，给我看检测单。",
        "把{entity}的单子拿来，应该是{qty}轮。",
    ),
    changes=(
        "{entity}有复测，取来看看。",
        "查一下{entity}的复测单。",
        "{entity}只好重做，给我看复测结果。",
    ),
    brief="{source}测{entity}",
    change_brief="{entity}复测",
    fillers=(
        "空白对照干净。",
        "通风橱检查合格。",
        "换样时都换了手套。",
        "阳性对照表现正常。",
        "离心前已配平。",
        "培养基用的是常用批号。",
        "盖子用封口膜封过。",
        "开瓶时略有异味。",
        "原始谱图存在服务器上。",
        "冰箱没有报过警。",
        "枪头带滤芯且无菌。",
        "标签用前核对过两遍。",
        "沉淀略呈粉色。",
        "废弃物进黄色桶。",
        "另留一份备样。",
        "温度波动在允许范围内。",
        "天平该送检了。",
        "用前已把沉渣摇匀。",
    ),
    user_fact=UserFact(
        "limit",
        "amount",
        "判废限值",
        says=("判废限值定为{v}个菌落。", "我们的判废限值是{v}。", "平板超过判废限值{v}就弃去。"),
        changes=("规程改了，判废限值现为{v}。", "判废限值已调到{v}。", "把先前的判废限值换成{v}。"),
        asks=("规程里的判废限值是多少？", "下一块平板用哪个判废限值？", "眼下有效的判废限值是哪个？"),
    ),
    compare=Compare(
        "colonies",
        (
            "{entity}的菌落数是否超过判废限值，相差多少？",
            "拿判废限值卡{entity}的菌落数：超没超，差多少个？",
        ),
    ),
    rule=Rule(
        noun="冷库",
        kind="room",
        says=("样品一律存进{v}冷库。", "默认冷库是{v}。", "测完以后，样瓶放回冷库，也就是{v}。"),
        exceptions=(
            "{entity}别放那儿，冷库用{v}，等我解除。",
            "{entity}单独存在冷库{v}。",
            "把{entity}挪到冷库{v}，就放那里。",
        ),
        withdrawals=(
            "解除{entity}的单独存放，回默认冷库。",
            "{entity}不再单设冷库。",
        ),
        reinstatements=(
            "{entity}的单独存放重新生效。",
            "{entity}放回给它单设的冷库。",
        ),
        once=(
            "仅限今晚，{entity}可以放冷库{v}。",
            "准你把{entity}在{v}冷库搁一回，下不为例。",
        ),
        asks=(
            "{entity}进哪间冷库？",
            "我手上拿着{entity}：放哪个冷库？",
            "给{entity}定的冷库在哪儿？",
        ),
    ),
    totals=(
        "检测单上各样品的菌落数加起来是多少？",
        "到现在测过的样品，菌落数合计多少？",
    ),
    across=(
        "比较{entity}与{other}的菌落数：哪个大，大多少？",
        "{entity}和{other}，哪块平板菌落数更多，多多少？",
    ),
)  # fmt: skip
