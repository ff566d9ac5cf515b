"""Scheduling in Chinese: events moved, called off and put back on, their organisers, a house curfew. A train family."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="scheduling",
    lang="zh",
    entities=(
        "彩排", "团建", "线上讲座", "黑客松", "面试", "入职培训", "复盘会", "员工大会", "成果展示", "公益义卖", "安全检查", "主题演讲",
        "路演", "研讨会", "颁奖典礼", "校友聚会",
    ),
    ids=(
        "rehearsal", "offsite", "webinar", "hackathon", "interview", "induction", "retrospective", "assembly", "showcase",
        "fundraiser", "inspection", "keynote", "roadshow", "seminar", "ceremony", "reunion",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="agenda", args=("event", "seats"), missing="日历里没有该活动和座位数的记录。"),
    change=ToolSpec(name="reschedule", args=("event",), missing="该活动没有改动过。"),
    attrs=(
        Attr(
            "fee", "amount", "场地费",
            ("场地费按{v}元结算。", "租用场地要{v}元。", "物业开出的账单是{v}元。"),
            other=("给{entity}借地方要花多少钱？", "财务要为{entity}付多少？"),
            guesses=("有人没查就说大概{v}元。", "听来的价是{v}元，别当真。"),
        ),
        Attr(
            "start", "date", "开始日期",
            ("开始日期定在{v}。", "首日是{v}。", "活动自{v}起举行。"),
            other=("{entity}哪天开场？", "为了{entity}，大家得从哪天起把时间空出来？"),
            guesses=("走廊里都在传{v}，可没人拍板。", "海报草稿上印的是{v}，请别理会。"),
        ),
        Attr(
            "reserve", "date", "备用日期",
            ("备用日期留了{v}。", "万一推迟，就改到{v}。", "另外预留了{v}这一天。"),
            other=("原计划不成，{entity}挪到哪天？", "要是延期，{entity}还有哪天能办？"),
            none=("没有安排备用日期。", "真要推迟，也没有别的日子可换。"),
        ),
        Attr(
            "organiser", "person", "负责人",
            ("这次由{v}牵头。", "负责人是{v}。", "组织工作交给了{v}。"),
            other=("{entity}归谁管？", "{entity}有事我该催谁？"),
            none=("目前还没有人认领。", "负责人一直空缺。"),
            guesses=("估计{v}会接，但什么都没说定。", "大家老提{v}，可没人问过本人。"),
        ),
        Attr(
            "evidence", "code", "凭证编号",
            ("确认函存档为{v}。", "凭证编号：{v}。", "签字纪要可按{v}调阅。"),
            other=("{entity}谈妥的事，哪份文件能作证？", "有人对{entity}不认账，我拿什么说话？"),
            none=("当时没有留下书面材料。", "找不到任何文件佐证。"),
        ),
        Attr(
            "doors", "clock", "签到时间",
            ("签到时间为{v}。", "大门将于{v}打开。", "请在{v}之前到场。"),
            other=("参加{entity}得几点赶到？", "{entity}那天几点放人进去？"),
        ),
        Attr(
            "room", "room", "会议室",
            ("地点在{v}。", "请大家到{v}集合。", "会议室{v}已订好。"),
            other=("{entity}在楼里哪个位置办？", "办{entity}那天我们往哪间走？"),
        ),
    ),
    sources=(
        "策划部", "行政后勤", "会务组", "前台", "董办", "培训科", "园区服务台", "新闻中心", "接待处", "项目办", "职工委员会", "校友会",
    ),
    heads=(
        "据{source}的日程，{entity}已排上，{qty}个座位。",
        "日历里有{entity}，{qty}个座位，由{source}维护。",
        "这是{source}登记的{entity}，{qty}个座位。",
    ),
    change_heads=(
        "刚从{source}得知，{entity}又有变动。",
        "据{source}通知，{entity}取消后又恢复了。",
        "最新消息来自{source}：{entity}重新安排过了。",
    ),
    work=(
        "请打开{entity}的日程，{qty}个座位。",
        "看看{entity}是怎么安排的，{qty}个座位。",
        "帮我在日历里调出{entity}，{qty}个座位。",
    ),
    changes=(
        "听说{entity}改期了，查清楚怎么改的。",
        "看看{entity}重新排成了什么样。",
        "{entity}取消了又要办，拿最新的安排来。",
    ),
    brief="{source}安排{entity}",
    change_brief="{entity}已改期",
    fillers=(
        "茶歇提前备在大厅。",
        "胸牌在门口领取。",
        "发言期间请将手机静音。",
        "停车位有限，建议坐地铁来。",
        "音响上周刚检修过。",
        "幻灯片请提前一晚发来。",
        "素食需要提前预订。",
        "全程会有人拍照。",
        "同声传译坐在后排左侧。",
        "寄存处等最后一位取完衣物才关。",
        "散场后椅子要叠放归位。",
        "没能到场的同事会收到录像。",
        "迟到的请走侧门。",
        "场次之间尽量留一点休息。",
        "每个座位上都有反馈表。",
        "饮用水和水果免费供应。",
        "电梯在维修，请多留几分钟。",
        "邀请函沿用往年的写法。",
    ),
    user_fact=UserFact(
        "budget",
        "amount",
        "场地预算",
        says=("每场活动的场地预算是{v}元。", "我们手头的场地预算有{v}元。", "请记着，场地预算为{v}元。"),
        changes=("场地预算变成{v}元了。", "财务把场地预算重定为{v}元。", "往后按{v}元的场地预算来。"),
        asks=("现在用的场地预算是多少？", "再说一遍我们的场地预算。", "我最后定下的场地预算是哪个数？"),
    ),
    compare=Compare(
        "fee",
        (
            "{entity}的场地费有没有超出场地预算，差多少？",
            "把{entity}的场地费跟场地预算摆在一起：超没超，差额多少？",
        ),
    ),
    rule=Rule(
        "清场时间",
        "clock",
        says=("楼里规定，清场时间统一为{v}。", "本楼一律按清场时间{v}执行。", "物业定的清场时间为{v}，没有商量。"),
        exceptions=(
            "我跟物业谈好了，{entity}的清场时间改到{v}，另行通知前都算数。",
            "{entity}特殊处理：清场时间{v}。",
            "今后{entity}单独用{v}这个清场时间。",
        ),
        withdrawals=("物业收回了{entity}的特别清场时间。", "{entity}单独的清场时间作废，跟全楼一样。"),
        reinstatements=("{entity}的特别清场时间又算数了。", "我们把{entity}单独的清场时间争取回来了。"),
        once=("仅限这一次，{entity}的清场时间可以是{v}。", "就这一场，{entity}按{v}清场，下次照楼里规定。"),
        asks=("{entity}散了以后，几点前必须清场？", "{entity}适用哪个清场时间？", "{entity}的告示上，清场时间写几点？"),
    ),
    totals=("到现在查看过的活动，场地费总共多少？", "把查过的每场活动的场地费加起来，一共多少元？"),
    across=("{entity}和{other}相比，哪个场地费更高，高多少？", "对比{entity}与{other}：场地费哪边更高，差多少？"),
)  # fmt: skip
