"""Procurement in Chinese: quotes, a budget cap that changes mid-way, approval codes. A train and validation family."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="procurement",
    lang="zh",
    entities=(
        "办公桌", "转椅", "台灯", "书架", "打印机", "文件柜", "沙发", "显示器", "长凳", "储物柜", "吧台椅", "投影仪", "扫描仪", "地毯",
        "窗帘", "会议桌",
    ),
    ids=(
        "desks", "chairs", "lamps", "shelves", "printers", "cabinets", "sofas", "monitors", "benches", "lockers", "stools",
        "projectors", "scanners", "carpets", "curtains", "tables",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="quote", args=("item", "qty"), missing="查不到该物品和数量的报价。"),
    change=ToolSpec(name="revise", args=("item",), missing="该物品没有可修订的报价。"),
    attrs=(
        Attr(
            "total", "amount", "总价",
            ("整单总价{v}元。", "全部算下来是{v}元。", "报价总额：{v}元。"),
            other=("买{entity}一共要花多少钱？", "{entity}这笔采购最后得掏多少？"),
            guesses=("同事没看过报价，凭感觉说大概{v}元。", "去年总共差不多{v}元，仅供参考。"),
        ),
        Attr(
            "deposit", "part", "定金",
            ("下单时须付定金{v}元。", "定金为{v}元，签约当日支付。", "对方要先收{v}元定金。"),
            other=("{entity}还没到货，我们得垫多少钱？", "订{entity}要提前打多少款过去？"),
            none=("这一单不收定金。", "到货之前不用付任何款项。"),
        ),
        Attr(
            "freight", "part", "运费",
            ("运费由买方承担，计{v}元。", "物流费用另收{v}元。", "送到楼下要加{v}元运费。"),
            other=("把{entity}拉过来要给车队多少钱？", "配送{entity}还得额外掏多少？"),
            none=("本单免运费，送货上门。", "路上的开销全由供货方承担。"),
            guesses=("司机说跑一趟大概{v}元，但价格不由他定。", "货运这块可能要{v}元左右，尚未核实。"),
        ),
        Attr(
            "code", "code", "审批编号",
            ("审批编号{v}已生成。", "领导已批复，批件号{v}。", "审批走完了，编号是{v}。"),
            other=("要让财务放行{entity}，单据上该填什么？", "上面同意买{entity}，凭据是哪一份？"),
        ),
        Attr(
            "contract", "code", "合同编号",
            ("合同编号{v}，原件已归档。", "合同已签，存档号为{v}。", "对应的合同见{v}。"),
            other=("和卖家谈定的{entity}协议叫什么号？", "在法务那里，{entity}挂的是哪个号？"),
            guesses=("有份草稿写的是{v}，后来作废了。", "文件夹上有人用铅笔写了{v}，还打了个问号。"),
        ),
        Attr(
            "delivery", "date", "交货日期",
            ("交货日期定为{v}。", "货物将于{v}送到。", "供方承诺{v}交付。"),
            other=("{entity}哪天能到公司？", "我们什么时候能用上{entity}？"),
            guesses=("仓库盼着{v}能到，没有确认。", "工厂要是赶得上，也许是{v}。"),
        ),
        Attr(
            "contact", "person", "联系人",
            ("联系人是{v}。", "有问题请直接找{v}。", "供应商那边由{v}对接。"),
            other=("{entity}的事该给谁打电话？", "厂家是哪位在管{entity}？"),
            none=("没有指定由谁对接。", "报价单上没留联系人。"),
        ),
    ),
    sources=(
        "北方办公", "海润商贸", "恒达实业", "金桥物资", "蓝湾贸易", "明远家居", "齐盛集团", "瑞丰商行", "松江百货", "泰和供应链", "新川工贸",
        "云杉家具",
    ),
    heads=(
        "收到{source}的报价：{entity}，数量{qty}。",
        "供应商{source}给{entity}报了价，数量{qty}。",
        "以下是{source}就{entity}出具的报价，数量{qty}。",
    ),
    change_heads=(
        "收到{source}的修订报价，涉及{entity}。",
        "供应商{source}改了{entity}的报价。",
        "这是{source}为{entity}重新出的报价单。",
    ),
    work=(
        "请就{entity}询价，数量{qty}。",
        "要采购{entity}，数量{qty}，先拿一份报价。",
        "帮我问问{entity}的价格，数量{qty}。",
    ),
    changes=(
        "请供应商修订{entity}的报价。",
        "{entity}的报价让对方再改一版。",
        "{entity}的价格再去谈一谈，拿新报价回来。",
    ),
    brief="{source}报价{entity}",
    change_brief="{entity}报价已修订",
    fillers=(
        "以上价格均不含税。",
        "报价自出具之日起三十天内有效。",
        "包装物可应要求回收。",
        "不含安装，需要上门安装的另行商议。",
        "样品可到展厅看。",
        "收到发票后三十天内付清。",
        "实物颜色与图片可能略有差异。",
        "配件保证十年内有货。",
        "货款付清之前，所有权归供方。",
        "卸货需要两个人，大约一小时。",
        "到货请当场验收，有破损请书面告知。",
        "其余事项按通用条款执行。",
        "数量较大时分两批发运。",
        "表面用中性清洁剂擦拭即可。",
        "所用木材均来自合法林区。",
        "退货须保持原包装完好。",
        "展厅节假日不开放。",
        "随货附中英文说明书。",
    ),
    user_fact=UserFact(
        "cap",
        "amount",
        "预算上限",
        says=("预算上限为{v}元。", "每一单的预算上限都是{v}元。", "花费请控制在预算上限{v}元以内。"),
        changes=("预算上限现调整为{v}元。", "财务通知：预算上限改成{v}元了。", "从现在起按{v}元的预算上限执行。"),
        asks=("现在的预算上限是多少？", "提醒我一下目前的预算上限。", "眼下该守哪个预算上限？"),
    ),
    compare=Compare(
        "total",
        (
            "{entity}的总价超没超预算上限，差额多少？",
            "拿{entity}的总价和预算上限比一比：超了没有，差多少？",
        ),
    ),
    rule=Rule(
        noun="成本中心",
        kind="code",
        says=("所有采购一律计入成本中心{v}。", "订单默认走{v}这个成本中心。", "我们固定的成本中心是{v}。"),
        exceptions=(
            "在另行通知之前，{entity}计入成本中心{v}。",
            "{entity}改挂成本中心{v}。",
            "有个例外：{entity}用成本中心{v}。",
        ),
        withdrawals=("{entity}的成本中心例外取消。", "{entity}以后跟别的订单一样入账。"),
        reinstatements=("{entity}的成本中心例外重新生效。", "请恢复{entity}的成本中心例外。"),
        once=("仅此一次，{entity}记在成本中心{v}。", "这回准许{entity}走成本中心{v}，下不为例。"),
        asks=("{entity}该记到哪个成本中心？", "{entity}的订单上填什么成本中心？", "我给{entity}入账时用哪个成本中心？"),
    ),
    totals=("到目前为止，所有报价的总价加起来是多少？", "把看过的每份报价的总价相加，合计多少？"),
    across=("{entity}和{other}哪个总价更高，高多少？", "比一比{entity}与{other}的总价：哪个更高，高出多少？"),
)  # fmt: skip
