"""Business reports in Chinese: metrics by region, restated figures, a threshold of the board. A train and validation family."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr
from envs.tasks.table import Table

SPEC = FamilySpec(
    name="analysis",
    lang="zh",
    entities=(
        "伊比利亚", "比荷卢", "苏格兰", "巴伐利亚", "安纳托利亚", "加泰罗尼亚", "佛兰德", "托斯卡纳", "西里西亚", "布列塔尼", "魁北克",
        "得克萨斯", "佛罗里达", "安大略", "旁遮普", "喀拉拉",
    ),
    ids=(
        "iberia", "benelux", "scotland", "bavaria", "anatolia", "catalonia", "flanders", "tuscany", "silesia", "brittany",
        "quebec", "texas", "florida", "ontario", "punjab", "kerala",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="report", args=("region", "weeks"), missing="没有覆盖该区域和时段的报告。"),
    change=ToolSpec(name="restate", args=("region",), missing="该区域没有需要重述的数据。"),
    attrs=(
        Attr(
            "revenue", "amount", "净营收",
            ("本期净营收为{v}万元。", "扣除退货后销售额为{v}万元。", "末行的净营收是{v}万元。"),
            other=("{entity}一共进账多少？", "{entity}这段时间做了多少生意？"),
            guesses=("有页幻灯片写着净营收约{v}万元，未经审计。", "某份没人签字的草稿说销售额可能在{v}万元上下。"),
        ),
        Attr(
            "plan", "amount", "计划值",
            ("当期计划值为{v}万元。", "年初编的预算是{v}万元。", "对照的计划值是{v}万元。"),
            other=("{entity}原本要冲到多少？", "给{entity}定的目标有多高？"),
            none=("没有设定计划值。", "该区域全年未列预算。"),
            guesses=("有人记得计划值像是{v}万元，出处不明。", "预算也许写的是{v}万元，文件找不到了。"),
        ),
        Attr(
            "orders", "amount", "订单量",
            ("销售团队签下{v}单。", "订单量达到{v}笔。", "统计到的订单有{v}笔。"),
            other=("{entity}谈成了多少买卖？", "{entity}的客户买过多少回？"),
        ),
        Attr(
            "index", "reading", "价格指数",
            ("价格指数收于{v}。", "物价折成指数是{v}。", "测算出的价格指数为{v}。"),
            other=("跟基年比，{entity}贵了多少？", "{entity}的成本水平走到哪儿了？"),
            guesses=("早先估的价格指数在{v}附近徘徊。", "实习生看着图，目测指数是{v}。"),
        ),
        Attr(
            "cutoff", "date", "截止日期",
            ("本期数据截至{v}。", "截止日期为{v}。", "账目在{v}冻结。"),
            other=("{entity}的数字算到哪天？", "{entity}统计到哪一天为止？"),
        ),
        Attr(
            "owner", "person", "编制人",
            ("本表由{v}编制。", "数字问题由{v}负责解释。", "编制人为{v}。"),
            other=("{entity}的情况是谁摸清的？", "{entity}要是看着不对，我该打给谁？"),
            guesses=("传闻{v}要接手这份报告，没有正式消息。", "看文风像是{v}写的。"),
        ),
        Attr(
            "journal", "code", "凭证号",
            ("已记入{v}号凭证。", "分录在凭证{v}里。", "凭证号为{v}。"),
            other=("财务把{entity}归在哪个编号下？", "审计按什么编号追查{entity}？"),
            none=("这一笔还没有做账。", "凭证号还没有开出来。"),
        ),
    ),
    sources=(
        "财务中台", "集团管控部", "销售洞察组", "数据办", "营运分析台", "区域审计部", "市场观察组", "实地分析组", "总账组", "计划处", "预测小组",
        "资金部",
    ),
    heads=(
        "以下为{source}关于{entity}的报告，覆盖{qty}周。",
        "据{source}统计，{entity}最近{qty}周情况如下。",
        "这是{source}拉取的{entity}数据，共{qty}周。",
    ),
    change_heads=(
        "已由{source}重述{entity}的数据。",
        "重述后的{entity}数字来自{source}。",
        "经{source}更正，{entity}的数据如下。",
    ),
    work=(
        "拉一份{entity}最近{qty}周的报告。",
        "我想看{entity}过去{qty}周的表现。",
        "把{entity}这{qty}周的数跑一遍。",
    ),
    changes=(
        "请重述{entity}的数据。",
        "审计查出错误，{entity}要重出一版。",
        "把{entity}更正后的数字拉出来。",
    ),
    brief="{source}报送{entity}",
    change_brief="{entity}数据已重述",
    fillers=(
        "已剔除季节性影响。",
        "小客户并入其他项。",
        "汇率影响基本中性。",
        "口径变更见脚注。",
        "去掉节假日后趋势更清楚。",
        "线上渠道增速快于门店。",
        "促销透支了部分需求。",
        "天气利好户外用品。",
        "除注明外，数字未经审计。",
        "内部往来已抵销。",
        "大客户流失率持平。",
        "产品结构偏向高端。",
        "春季有一家竞争对手退出。",
        "同比不含已关门店。",
        "缺货过后库存已补足。",
        "下一页的图表反映同样情况。",
        "因四舍五入，各行可能略有出入。",
        "管理层说明见附录。",
    ),
    user_fact=UserFact(
        "threshold",
        "amount",
        "董事会门槛",
        says=("董事会门槛是{v}万元。", "超过董事会门槛{v}万元的才往上报。", "请以{v}万元作为董事会门槛。"),
        changes=("董事会门槛已调到{v}万元。", "不管升还是降，往后董事会门槛都按{v}万元算。", "之前说的董事会门槛，一律换成{v}万元。"),
        asks=("现在用的董事会门槛是多少？", "眼下适用哪个董事会门槛？", "董事会门槛目前定在多少？"),
    ),
    compare=Compare(
        "revenue",
        (
            "{entity}的净营收过没过董事会门槛，两者差多少？",
            "把{entity}的净营收和董事会门槛对一下：过线没有，相距多少？",
        ),
    ),
    rule=Rule(
        noun="复核人",
        kind="person",
        says=("每份初稿都先送复核人{v}。", "复核人一般是{v}。", "没有特别交代的话，初稿交{v}复核。"),
        exceptions=(
            "{entity}除外，另行通知前复核人用{v}。",
            "{entity}比较特殊，复核人是{v}。",
            "{entity}的初稿不走常规，改由{v}复核。",
        ),
        withdrawals=("{entity}不再特殊处理，回到平常的复核人。", "取消{entity}单设的复核人。"),
        reinstatements=("{entity}单设的复核人再启用。", "{entity}又按特殊处理，仍归它自己的复核人。"),
        once=("就这一次，{entity}可由{v}当复核人。", "{entity}的下一份初稿归{v}复核，只此一份。"),
        asks=("{entity}如今的复核人是谁？", "{entity}的初稿好了，送哪位复核人？", "说一下{entity}归哪位复核人。"),
    ),
    totals=("到目前报过的区域，净营收合计多少？", "把拉过的各区域净营收加总，等于多少？"),
    across=("{entity}和{other}放在一起看：哪个净营收更高，高多少？", "论净营收，{entity}与{other}谁大，差多少？"),
    table=Table("revenue", ("周一", "周二", "周三", "周四", "周五"), "逐日入账（万元）："),
)  # fmt: skip
