"""Customer support in Chinese: orders looked up, amended, an address that changes. A train and validation family."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="support",
    lang="zh",
    entities=(
        "电水壶", "吐司机", "双肩包", "耳机", "键盘", "破壁机", "帐篷", "冲锋衣", "数码相机", "电钻", "和面机", "路由器", "头盔", "滑板车",
        "取暖器", "音箱",
    ),
    ids=(
        "kettle", "toaster", "backpack", "headset", "keyboard", "blender", "tent", "jacket", "camera", "drill", "mixer",
        "router", "helmet", "scooter", "heater", "speaker",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="order", args=("item",), missing="没有该商品的订单。"),
    change=ToolSpec(name="amend", args=("item",), missing="该商品没有可修改的订单。"),
    attrs=(
        Attr(
            "paid", "amount", "实付金额",
            ("客户实付金额{v}元。", "这一单收款{v}元。", "顾客付了{v}元，已入账。"),
            other=("{entity}当时扣了我多少钱？", "我买{entity}花了多少？"),
            guesses=("商品目录上标价{v}元，可能已经过时。", "同款一般卖{v}元上下。"),
        ),
        Attr(
            "refund", "part", "退款金额",
            ("本单可退款{v}元。", "退款金额核定为{v}元。", "审核通过，退还{v}元。"),
            other=("{entity}能返给我多少钱？", "{entity}这笔会有多少回到我卡里？"),
            none=("这一单不予退款。", "已过退货期限，钱退不了了。"),
            guesses=("电话里的同事好像答应过{v}元，但没有记录。", "也许能退{v}元，还得再算。"),
        ),
        Attr(
            "tracking", "code", "运单号",
            ("运单号为{v}。", "包裹已发出，单号{v}。", "快递面单上印的是{v}。"),
            other=("怎么查{entity}走到哪儿了？", "查{entity}的物流该输入什么？"),
            none=("还没有交给快递公司。", "这件由门店自送，不走快递。"),
        ),
        Attr(
            "case", "code", "工单号",
            ("工单号{v}已登记。", "投诉已受理，受理号{v}。", "后续请凭工单{v}跟进。"),
            other=("再来咨询{entity}时，我要报哪个号？", "我反映的{entity}问题，你们编了什么号？"),
            guesses=("更早的投诉{v}查下来是另一回事。", "聊天窗口里弹出过{v}，多半是别的客户的。"),
        ),
        Attr(
            "arrival", "date", "送达日期",
            ("预计{v}送达。", "送达日期为{v}。", "快件{v}派送到户。"),
            other=("{entity}哪天能到我手上？", "我该哪天在家等{entity}？"),
            guesses=("网点希望是{v}，说不准。", "派件员随口说可能拖到{v}。"),
        ),
        Attr(
            "agent", "person", "经办人",
            ("经办人是{v}。", "此单由{v}处理。", "已分给{v}跟进。"),
            other=("你们那边谁在管{entity}？", "{entity}的事我该找谁谈？"),
            none=("目前还没人接手。", "正在等待分派。"),
            guesses=("也许会转给{v}，还没定。", "差点分到{v}那里，可人家休假了。"),
        ),
        Attr(
            "pickup", "clock", "取件时间",
            ("取件时间为{v}。", "快递员{v}上门取件。", "约好{v}来收件。"),
            other=("几点有人来拿{entity}？", "{entity}当天几点会被拉走？"),
        ),
    ),
    sources=(
        "订单中心", "商城后台", "售后中心", "退货组", "东区仓库", "西区仓库", "快递驿站", "线上门店", "客服热线", "理赔专席",
    ),
    heads=("在{source}查到{entity}的订单。", "这是{source}登记的{entity}订单。", "据{source}记录，{entity}的订单如下。"),
    change_heads=(
        "已由{source}修改{entity}的订单。",
        "据{source}更新，{entity}的订单有改动。",
        "这是{source}改过的{entity}订单。",
    ),
    work=("请查一下{entity}的订单。", "帮我找到买{entity}的那笔订单。", "麻烦看看我的{entity}订单。"),
    changes=("请把{entity}的订单改一下。", "{entity}的订单按说好的改。", "麻烦修改我那笔{entity}订单。"),
    brief="{source}查{entity}订单",
    change_brief="{entity}订单已修改",
    fillers=(
        "七天内可无理由退货。",
        "退款原路返回付款账户。",
        "软件拆封后不支持退货。",
        "保修请保留购物凭证。",
        "正常使用保修两年。",
        "自然磨损不在保修范围内。",
        "家中无人时，快件会先放到小区柜子里。",
        "实体店同样受理退货。",
        "退货面单可以在家打印。",
        "礼品卡不能兑换现金。",
        "外包装破损请当面拒收。",
        "商品评价审核后才会展示。",
        "工作日有人接听电话。",
        "电池请单独寄回。",
        "维修大约需要两周。",
        "偏远地区配送时间较长。",
        "个人信息保存三年后删除。",
        "标价均已含税。",
    ),
    user_fact=UserFact(
        "address",
        "address",
        "收货地址",
        says=("我的收货地址是{v}。", "东西请送到{v}。", "我住在{v}。"),
        changes=("我搬家了，现在住{v}。", "以后请改送{v}。", "新的收货地址是{v}。"),
        asks=("现在以哪个收货地址为准？", "我目前的收货地址是哪里？", "现在你们往哪儿给我送货？"),
    ),
    rule=Rule(
        noun="代收人",
        kind="person",
        says=("我不在家时，快递请交给{v}代收。", "平时由{v}替我收包裹。", "家里没人的话，包裹都放{v}那儿。"),
        exceptions=(
            "{entity}请改由{v}代收。",
            "在我另行通知前，{entity}都交给{v}。",
            "{entity}的代收人换成{v}，别找平时那位。",
        ),
        withdrawals=("{entity}由谁代收，之前说的不算了。", "{entity}不再另设代收人。"),
        reinstatements=("{entity}由谁代收，还按我之前特别交代的办。", "{entity}的专属代收人重新启用。"),
        once=("只有这一次，{entity}交给{v}。", "这回{entity}可以让{v}代拿，下次照旧。"),
        asks=("我不在时{entity}由谁代收？", "{entity}的代收人是哪位？", "{entity}到了你会放到谁那里？"),
    ),
    totals=("到现在为止，我一共付了多少？", "所有订单的实付金额加在一起是多少？"),
    across=("{entity}和{other}哪个实付金额更高，高多少？", "我买{entity}和买{other}，哪个付得多，多多少？"),
)  # fmt: skip
