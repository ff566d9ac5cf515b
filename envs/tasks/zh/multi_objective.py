"""Errands in Chinese: an office administrator's odd jobs, each on its own: who comes when, to which room, at what cost."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="multi_objective",
    lang="zh",
    entities=(
        "补工牌", "订鲜花", "配钥匙", "划车位", "洗窗户", "补咖啡", "收废品", "换标牌", "修锅炉", "修碎纸机", "调钢琴",
        "洗鱼缸", "换灭火器", "修信箱", "修雨棚", "擦铜牌",
    ),
    ids=(
        "badges", "bouquets", "keys", "parking", "windows", "coffee", "recycling", "signage", "boiler", "shredder", "piano",
        "aquarium", "extinguishers", "postbox", "awning", "plaque",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="errand", args=("about", "minutes"), missing="单子上没有这件事。"),
    change=ToolSpec(name="defer", args=("about",), missing="这件事没有约过。"),
    attrs=(
        Attr(
            "bill", "amount", "费用",
            ("这一趟要花{v}元。", "费用合计{v}元。", "对方全包价{v}元。"),
            other=("{entity}得掏多少钱？", "{entity}的开销是多少？"),
            guesses=("照去年看，费用可能到{v}元。", "财务先按{v}元留了数，等账单再说。"),
        ),
        Attr(
            "prepayment", "part", "预付款",
            ("先汇{v}元预付款。", "须提前打过去{v}元。", "预付款要{v}元。"),
            other=("{entity}动手前得给人家多少？", "{entity}要先垫多少钱？"),
            none=("不收预付款。", "不用先付，做完再结。"),
            guesses=("前台说预付款大概{v}元，还得核实。", "预付款也许{v}元，没有书面依据。"),
        ),
        Attr(
            "helper", "person", "上门师傅",
            ("这事归{v}负责。", "上门师傅是{v}。", "来的人叫{v}，留意一下。"),
            other=("{entity}归谁办？", "{entity}那天我们等的是谁？"),
            guesses=("也许{v}能来，还没人问过。", "上回是{v}，这回说不好。"),
        ),
        Attr(
            "start", "clock", "开工时间",
            ("他们{v}按门铃。", "活儿从{v}干起。", "开工时间{v}，不早不晚。"),
            other=("{entity}几点有人来？", "{entity}要我们多早把门打开？"),
            guesses=("可能是{v}，对方说得含糊。", "电话里有人嘟囔了一句{v}，不知算不算开工的钟点。"),
        ),
        Attr(
            "day", "date", "预约日期",
            ("日程上记的是{v}。", "约好{v}过来。", "预约日期定在{v}。"),
            other=("{entity}排在哪一天？", "{entity}是这个月还是下个月几号？"),
        ),
        Attr(
            "room", "room", "房间",
            ("带他们进{v}。", "房间是{v}。", "全程都在{v}进行。"),
            other=("{entity}要在楼里什么地方弄？", "{entity}我该开哪扇门？"),
            none=("不限定房间。", "用不着专门腾屋子。"),
        ),
        Attr(
            "job", "code", "工单号",
            ("打电话时报{v}。", "工单号为{v}。", "对方单据上写着{v}。"),
            other=("{entity}跟他们联系要说哪个编号？", "{entity}在那边记成哪一条？"),
        ),
    ),
    sources=(
        "大成物业", "小林工坊", "好帮手", "大堂前台", "金手指", "快修站", "方正工坊", "同心家政", "平安后勤", "百事通",
        "四方工务", "都市维修",
    ),
    heads=(
        "这次{entity}交给{source}，预计{qty}分钟。",
        "{entity}可以由{source}来做，用时{qty}分钟。",
        "已约{source}来{entity}，留{qty}分钟。",
    ),
    change_heads=(
        "不巧，{source}说{entity}得另约。",
        "{entity}有新安排，对方仍是{source}。",
        "刚接到{source}来电，{entity}有变动。",
    ),
    work=(
        "下一件是{entity}，找人来做，{qty}分钟够了。",
        "麻烦安排一下{entity}，给{qty}分钟。",
        "顺手把{entity}也办了，最多{qty}分钟。",
    ),
    changes=(
        "时段撞上了，{entity}重新约吧。",
        "给对方打个电话，把{entity}挪一挪。",
        "{entity}得换个时段，请重新安排。",
    ),
    brief="{source}承接{entity}",
    change_brief="{entity}改期",
    fillers=(
        "梯子他们自带。",
        "前台得留个人。",
        "电梯又坏了。",
        "请提前清空走廊。",
        "备杯茶总没错。",
        "发票寄到财务邮箱就行。",
        "已经跟邻居打过招呼。",
        "他们的车能开进院子。",
        "天气不好可能稍有耽搁。",
        "没人在就留张字条。",
        "完事后他们会收拾干净。",
        "换下来的旧件免费带走。",
        "老板想随时知道进展。",
        "年轻的那位怕狗。",
        "新地板上要脱鞋。",
        "前一天傍晚之前取消不收钱。",
        "备用保险丝在最上面的抽屉里。",
        "收据要开公司抬头。",
    ),
    user_fact=UserFact(
        "cash",
        "amount",
        "零用金",
        says=("零用金里有{v}元。", "今早点过零用金，一共{v}元。", "这阵子只能靠零用金{v}元撑着。"),
        changes=("零用金补过了，现在{v}元。", "我又数了一遍，零用金剩{v}元。", "今天跑完银行，零用金变成{v}元。"),
        asks=("我们手上零用金有多少？", "零用金最近一次是多少？", "据你所知零用金还剩多少？"),
    ),
    compare=Compare(
        "bill",
        (
            "{entity}的费用会不会超过零用金，相差多少？",
            "拿零用金付{entity}：费用超没超，差多少？",
        ),
    ),
    rule=Rule(
        noun="最早入场时间",
        kind="clock",
        says=(
            "谁来都不能早于{v}，这是最早入场时间。",
            "公司规定，{v}是外来施工的最早入场时间。",
            "这些活儿的最早入场时间都是{v}。",
        ),
        exceptions=(
            "给{entity}破个例：最早入场时间{v}。",
            "{entity}情况不同，最早入场时间是{v}。",
            "在我另说之前，{entity}的最早入场时间算{v}。",
        ),
        withdrawals=(
            "给{entity}破的例不算了，还按公司规定。",
            "{entity}单独定的最早入场时间收回。",
        ),
        reinstatements=(
            "再想想，给{entity}破的例还是留着。",
            "{entity}单独定的最早入场时间恢复。",
        ),
        once=(
            "就这一回，{entity}的最早入场时间可以是{v}。",
            "只破一天例，{entity}最早入场时间{v}也行，过后照公司规定。",
        ),
        asks=(
            "{entity}的最早入场时间是几点？",
            "他们问{entity}多早能进，最早入场时间是几点？",
            "{entity}适用哪个最早入场时间？",
        ),
    ),
    totals=(
        "到现在为止，各件事的费用加在一起是多少？",
        "单子上的费用要是今天一次付清，总共多少？",
    ),
    across=(
        "比一比{entity}和{other}的费用：哪个更高，高多少？",
        "{entity}和{other}哪件更费钱：费用谁高，差多少？",
    ),
)  # fmt: skip
