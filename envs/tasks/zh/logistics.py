"""Logistics in Chinese: lots with near-twin numbers, counts and weights at the warehouse gate, a standing dock for unloading."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="logistics",
    lang="zh",
    entities=(
        "LX4471", "LX4417", "BN2086", "BN2068", "QR7150", "QR7510", "TM3392", "TN3392", "GD6604", "GD6640", "VK1859", "VK1589",
        "HP9025", "HB9025", "SW5738", "SW5783",
    ),
    ids=(
        "lx4471", "lx4417", "bn2086", "bn2068", "qr7150", "qr7510", "tm3392", "tn3392", "gd6604", "gd6640", "vk1859", "vk1589",
        "hp9025", "hb9025", "sw5738", "sw5783",
    ),
    entity_phrase="批次{e}",
    lookup=ToolSpec(name="manifest", args=("lot", "pallets"), missing="没有该批次、该托数的到货清单。"),
    change=ToolSpec(name="recount", args=("lot",), missing="该批次没有复点记录。"),
    attrs=(
        Attr(
            "received", "amount", "实收件数",
            ("现场清点入库{v}件。", "月台点验完毕，手头现有{v}件。", "实收件数为{v}，理货单已签。"),
            other=("{entity}到底来了多少货？", "{entity}今天能拣的有多少？"),
            guesses=("司机估摸有{v}件，没点过。", "装箱单上像是{v}件，字迹糊了，先别入账。"),
        ),
        Attr(
            "owed", "amount", "欠交数",
            ("供应商尚欠{v}件未交。", "欠交数{v}件。", "余下{v}件后补。"),
            other=("{entity}对方还差我们多少？", "{entity}的缺口有多大？"),
            none=("货已交齐，不欠。", "尾数免补，不计欠交。"),
            guesses=("业务员口头提过日后再来{v}件，没有单据。", "系统建议补{v}件，尚未放行。"),
        ),
        Attr(
            "gross", "weight", "毛重",
            ("地磅显示{v}。", "连货带托一共{v}。", "毛重{v}，过磅单已留底。"),
            other=("{entity}整个有多沉？", "{entity}压到车轴上的分量是多少？"),
            guesses=("叉车屏上闪过{v}，秤没校准。", "承运人估的是{v}，待核实。"),
        ),
        Attr(
            "tare", "tare", "皮重",
            ("木托加缠绕膜合计{v}。", "皮重按{v}计。", "包装要扣掉{v}。"),
            other=("{entity}里头不算货的部分有多少？", "{entity}卸空以后上秤会是多少？"),
        ),
        Attr(
            "seal", "code", "铅封号",
            ("铅封号{v}，完好无损。", "车门用{v}封着。", "封签印着{v}。"),
            other=("{entity}锁扣上是什么编码？", "海关给{entity}挂了哪个牌子？"),
            none=("到场时就没有铅封。", "车门敞着，未见封签。"),
            guesses=("地上捡到一枚{v}，来路不明。", "随车文件里隐约有个{v}，对不上。"),
        ),
        Attr(
            "bin", "room", "库位",
            ("已上架到{v}。", "库位安排在{v}。", "货放{v}最上层。"),
            other=("到仓里哪儿能找着{entity}？", "{entity}在哪个货架上？"),
            none=("还没上架，堆在通道里。", "尚未分配库位。"),
        ),
        Attr(
            "docked", "date", "到仓日",
            ("车辆{v}靠台。", "货是{v}卸下来的。", "到仓日{v}，以入场章为准。"),
            other=("{entity}什么时候送到我们这儿的？", "{entity}从哪天起就在库里了？"),
        ),
    ),
    sources=(
        "北门", "南门", "西区仓", "海天物流", "大通海运", "中天货运", "六号场", "冷链仓", "铁路站", "大运车队",
        "监管仓", "中转仓",
    ),
    heads=(
        "{entity}由{source}登记入场，共{qty}托。",
        "到货清单，{source}：{entity}，合计{qty}托。",
        "今收到{source}转来的{entity}，计{qty}托。",
    ),
    change_heads=(
        "复点结果，{source}：{entity}。",
        "{entity}经{source}重新点过。",
        "单据弄混了，{source}已将{entity}重新入账。",
    ),
    work=(
        "调一下{entity}的到货清单，{qty}托。",
        "{entity}到了{qty}托，把清单找出来。",
        "准备签收{entity}，{qty}托，先看清单。",
    ),
    changes=("{entity}请再点一遍。", "让人把{entity}复点一下。", "盘点跟{entity}对不上，安排复点。"),
    brief="{source}到货{entity}",
    change_brief="{entity}已复点",
    fillers=(
        "标签长得很像，小心拿错。",
        "有一角的缠绕膜破了。",
        "严禁叠放。",
        "此面朝上。",
        "只许叉车作业，不用手动液压车。",
        "托盘一换一。",
        "司机在月台等了好一阵。",
        "卸货用了尾板。",
        "注意防潮。",
        "破损照片已放进共享文件夹。",
        "温度记录仪已按约定关闭。",
        "送货单盖章后已交回。",
        "混装纸箱，上架前先分拣。",
        "护角要寄回。",
        "条码扫不出来，是手工录入的。",
        "不用贴危险品标识。",
        "卸车前检查过绑带。",
        "已通知收货人。",
    ),
    user_fact=UserFact(
        "capacity",
        "amount",
        "当班处理量",
        says=("当班处理量按{v}件排。", "人手有限，当班处理量最多{v}件。", "排计划时，当班处理量取{v}件。"),
        changes=("当班处理量改为{v}件。", "换了班组，当班处理量调到{v}件。", "更正一下，当班处理量应为{v}件。"),
        asks=("现在按多大的当班处理量来排？", "眼下当班处理量是多少？", "当班处理量以哪个数为准？"),
    ),
    compare=Compare(
        "received",
        (
            "{entity}的实收件数是否超过当班处理量，相差多少？",
            "拿{entity}的实收件数跟当班处理量比：超没超，差几件？",
        ),
    ),
    rule=Rule(
        noun="固定月台",
        kind="room",
        says=("所有车都在{v}卸，那是固定月台。", "固定月台定在{v}。", "各车共用的固定月台：{v}。"),
        exceptions=(
            "例外：{entity}的固定月台用{v}，取消前一直有效。",
            "{entity}不一样，固定月台是{v}。",
            "{entity}改道，固定月台换成{v}。",
        ),
        withdrawals=(
            "月台例外取消，{entity}回到共用的固定月台。",
            "单独给{entity}的固定月台作废。",
        ),
        reinstatements=(
            "月台例外恢复，{entity}仍走自己的固定月台。",
            "单独给{entity}的固定月台重新启用。",
        ),
        once=(
            "就这一车：{entity}在{v}卸，往后照旧走固定月台。",
            "让{entity}进一次{v}，固定月台要封一小时。",
        ),
        asks=(
            "{entity}该进哪个固定月台？",
            "{entity}在哪儿卸，固定月台是几号？",
            "把{entity}派到哪个固定月台？",
        ),
    ),
    totals=(
        "到目前为止，所有批次的实收件数加起来是多少？",
        "查过的清单，实收件数合计多少？",
    ),
    across=(
        "{entity}和{other}，哪个实收件数更多，多出几件？",
        "把{entity}跟{other}放在一起看：谁的实收件数多，多多少？",
    ),
)  # fmt: skip
