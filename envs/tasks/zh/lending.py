"""Lending in Chinese: a tool library's loan cards, who holds what and until when."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="lending",
    lang="zh",
    entities=(
        "人字梯", "砂光机", "曲线锯", "独轮车", "油锯", "电刨", "倒链", "发电机", "割草机", "马凳", "绞盘", "空压机", "角磨机", "微耕机",
        "地钻", "铁砧",
    ),
    ids=(
        "ladder", "sander", "jigsaw", "barrow", "chainsaw", "planer", "hoist", "generator", "mower", "trestle", "winch", "compressor",
        "grinder", "tiller", "auger", "anvil",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="loan", args=("tool", "days"), missing="没有这件工具按这个天数开的借用卡。"),
    change=ToolSpec(name="reissue", args=("tool",), missing="这件工具没有可换发的借用卡。"),
    attrs=(
        Attr(
            "holder", "person", "借用人",
            says=("签字领走的是{v}。", "东西眼下在{v}手里。", "卡上登记的借用人是{v}。"),
            other=("{entity}让谁给拿走了？", "现在要用{entity}，得上谁那儿去取？"),
            none=("还没有人签字领用。", "它在架子上闲着，无人认领。"),
            guesses=("门卫说好像在{v}的车上见过。", "没准在{v}家里，谁也没去看过。"),
        ),
        Attr(
            "due", "date", "应还日",
            says=("借期到{v}为止。", "应还日是{v}。", "最迟{v}要送回来。"),
            other=("{entity}几号得回库？", "{entity}能在外头放到哪一天？"),
            none=("这次借出没定期限。", "什么时候还，双方没谈过。"),
            guesses=("柜台有人提过{v}，可一直没盖章。", "卡上铅笔写着{v}，又划掉了。"),
        ),
        Attr(
            "bond", "part", "押金",
            says=("柜台收了押金{v}元。", "先扣{v}元作担保。", "为防弄坏，暂存{v}元。"),
            other=("{entity}完好交回的话，要退人家多少钱？", "为了{entity}，咱们手里压着多大一笔现款？"),
            none=("这次没收押金。", "老会员，担保免了。"),
            guesses=("记得信封里有{v}元，上面没写名字。", "志愿者说是{v}元，可没开收据。"),
        ),
        Attr(
            "worth", "amount", "重置价",
            says=("买新的要{v}元。", "重置价{v}元。", "投保时按{v}元估的价。"),
            other=("{entity}要是丢了，咱们亏多少？", "谁把{entity}弄没了，得赔多少钱？"),
            guesses=("有会员说二手的只卖{v}元。", "箱子上的旧标签写着{v}元。"),
        ),
        Attr(
            "slip", "code", "借单号",
            says=("借单号{v}。", "单子右上角印着{v}。", "出库单据为{v}。"),
            other=("去柜台问{entity}，报什么编码？", "{entity}出门时随哪份手续走？"),
        ),
        Attr(
            "bay", "room", "货位",
            says=("货位是{v}。", "平时就挂在{v}。", "收工后放回{v}。"),
            other=("{entity}用完搁哪儿？", "要拿{entity}，去哪个架子找？"),
        ),
        Attr(
            "check", "date", "安检日",
            says=("上次安检在{v}。", "电工{v}验过，合格。", "检测标签上写的是{v}。"),
            other=("{entity}最近一回做检查是哪天？", "{entity}什么时候让人查看过有没有毛病？"),
            none=("从来没做过安检。", "标签掉了，也没有检测记录。"),
            guesses=("凭印象，大概{v}看过一回。", "可能{v}顺手测过，没记下来。"),
        ),
    ),
    sources=(
        "工具房", "东门柜台", "北门柜台", "老街分站", "码头分站", "工会仓库", "街道库房", "物业", "文化站", "港区站", "职校车间", "夜班台",
    ),
    heads=(
        "{entity}的卡存在{source}，借出{qty}天。",
        "借用卡一张：{entity}，{qty}天，{source}填写。",
        "查到{source}为{entity}开的卡，外借{qty}天。",
    ),
    change_heads=(
        "{entity}的卡已由{source}换发。",
        "这是{source}给{entity}补开的新卡。",
        "卡片更正：{entity}，盖的是{source}的章。",
    ),
    work=(
        "借一下{entity}，{qty}天。",
        "我想用{entity}，为期{qty}天，看看借用卡。",
        "把{entity}借{qty}天的卡调出来。",
    ),
    changes=(
        "{entity}的卡换发一下。",
        "{entity}的卡上有变动，换张新的。",
        "把{entity}换发后的卡拿来看看。",
    ),
    brief="{source}借出{entity}",
    change_brief="{entity}换卡",
    fillers=(
        "归还前请擦干净。",
        "刀口冬天统一打磨。",
        "油箱放空再交。",
        "护目镜可向柜台借用。",
        "会员可提前一周预约。",
        "手柄裂了请说一声。",
        "电池夜里充电。",
        "钥匙别弄丢。",
        "不借给租赁公司。",
        "接线板在门口。",
        "开水壶会员可用。",
        "锯末请装袋。",
        "头一次用可请人演示。",
        "说明书在阅览角。",
        "拖着不还，别人干等。",
        "有异响挂红牌。",
        "下雪天提前关门。",
        "欢迎捐手工具。",
    ),
    user_fact=UserFact(
        "ceiling",
        "amount",
        "保险限额",
        says=(
            "咱们的保险限额是单件{v}元。",
            "注意别超保险限额{v}元。",
            "保单上写明，保险限额为{v}元。",
        ),
        changes=(
            "保险公司把保险限额改成了{v}元。",
            "从今天起，保险限额按{v}元算。",
            "换了新保单，保险限额变为{v}元。",
        ),
        asks=(
            "咱们现在的保险限额是多少？",
            "今天的保险限额保到多少为止？",
            "提醒我一下保单里的保险限额。",
        ),
    ),
    compare=Compare(
        "worth",
        (
            "{entity}的重置价超过保险限额了吗，相差多少？",
            "按重置价看，{entity}会不会突破保险限额，差额是多少？",
        ),
    ),
    rule=Rule(
        noun="会签人",
        kind="person",
        says=(
            "按规矩，每张借用卡都要{v}会签。",
            "没有{v}会签，东西一律不出库。",
            "所有的卡都请{v}会签。",
        ),
        exceptions=(
            "在我另说之前，{entity}由{v}会签。",
            "{entity}破个例，会签找{v}。",
            "往后{entity}的会签归{v}。",
        ),
        withdrawals=(
            "{entity}的会签不再单独安排。",
            "{entity}会签的特例取消。",
        ),
        reinstatements=(
            "{entity}会签的特例继续有效。",
            "{entity}还是要单独会签，仍找之前那位。",
        ),
        once=(
            "仅此一次，{entity}可以让{v}会签。",
            "今天{entity}可由{v}会签，过了今天不算。",
        ),
        asks=(
            "{entity}要谁会签？",
            "{entity}出库前得找谁会签？",
            "{entity}的卡上，会签栏该签谁的名？",
        ),
    ),
    totals=(
        "查过的这些卡，工具的重置价合计多少？",
        "把到目前为止查到的重置价都加起来，是多少？",
    ),
    across=(
        "论重置价，{entity}和{other}哪个高，高多少？",
        "{entity}和{other}要是重新买，哪个更贵，贵多少？",
    ),
)  # fmt: skip
