"""Releases in Chinese: components checked before they ship, waivers, a ticket that nobody may touch. A train family."""

from __future__ import annotations

from envs.tasks.base import ToolSpec
from envs.tasks.spec import Compare, FamilySpec, Rule, UserFact
from envs.tasks.surface import Attr

SPEC = FamilySpec(
    name="release",
    lang="zh",
    entities=(
        "解析器", "渲染器", "安装程序", "更新程序", "导出工具", "代码检查器", "编译器", "调试器", "性能分析器", "模拟器", "格式化工具",
        "分词器", "打包工具", "启动器", "压缩工具", "爬虫",
    ),
    ids=(
        "parser", "renderer", "installer", "updater", "exporter", "linter", "compiler", "debugger", "profiler", "emulator",
        "formatter", "tokenizer", "bundler", "launcher", "minifier", "crawler",
    ),
    entity_phrase="{e}",
    lookup=ToolSpec(name="readiness", args=("component", "soak"), missing="该组件在该试跑时长下没有就绪报告。"),
    change=ToolSpec(name="rebuild", args=("component",), missing="该组件没有第二个候选包。"),
    attrs=(
        Attr(
            "size", "amount", "包体积",
            ("包体积为{v}KB。", "构建产物大小{v}KB。", "解压后占{v}KB。"),
            other=("下载{entity}要多少流量？", "{entity}装到硬盘上有多大？"),
            guesses=("内部文档还写着{v}KB，那是废弃实验的数。", "去掉符号表也许能到{v}KB，没人试过。"),
        ),
        Attr(
            "ticket", "code", "跟踪单",
            ("跟踪单{v}已关联。", "所有子任务都挂在{v}下面。", "进展记在{v}里。"),
            other=("想看{entity}做到哪一步了，去哪儿翻？", "更新日志里{entity}后面该写哪个事项？"),
        ),
        Attr(
            "waiver", "code", "豁免单",
            ("未通过的检查已按{v}豁免。", "这里开过豁免，单号{v}。", "豁免单{v}已经会签。"),
            other=("{entity}是凭哪份特批放行的？", "{entity}能绕过门禁，靠的是哪张条子？"),
            none=("没有批准任何豁免。", "豁免申请被驳回了。"),
            guesses=("有份豁免{v}拟好了，还没签。", "去年的豁免{v}不能沿用。"),
        ),
        Attr(
            "target", "version", "目标版本",
            ("标签将打成{v}。", "目标版本商定为{v}。", "我们从主干切{v}。"),
            other=("{entity}放出来以后算几点几？", "{entity}的关于窗口里会显示哪个号？"),
            guesses=("市场部的材料许诺{v}，研发没同意过。", "命名再吵下去，也可能叫{v}。"),
        ),
        Attr(
            "floor", "version", "运行时下限",
            ("运行时低于{v}就拒绝启动。", "运行时下限：{v}。", "支持运行时{v}及以上。"),
            other=("{entity}能容忍多旧的解释器？", "{entity}最老还能在哪版环境里跑？"),
            none=("对运行时没有最低要求。", "哪个运行时都行。"),
        ),
        Attr(
            "ship", "date", "发布日期",
            ("发布日期是{v}，不出意外的话。", "定于{v}对外推出。", "灰度窗口{v}开启。"),
            other=("客户哪天能用上{entity}？", "{entity}什么时候全面开放？"),
            guesses=("销售一直跟人说{v}，没问过我们。", "有人在白板上写了{v}，还打了问号。"),
        ),
        Attr(
            "reviewer", "person", "评审人",
            ("改动由{v}批准。", "评审人登记为{v}。", "最后一遍代码是{v}看的。"),
            other=("谁过目了{entity}的源码？", "{entity}旁边的绿勾是谁打的？"),
            none=("改动还没有人看过。", "目前缺评审人。"),
        ),
    ),
    sources=(
        "构建集群", "夜间流水线", "发布门禁", "预发环境", "签名主机", "矩阵任务", "冒烟流水线", "测试通道", "发布列车", "打包任务", "镜像校验",
        "回归平台",
    ),
    heads=(
        "据{source}报告，{entity}已试跑{qty}小时。",
        "这是{source}出的{entity}就绪报告，试跑{qty}小时。",
        "按{source}的记录，{entity}试跑满{qty}小时。",
    ),
    change_heads=(
        "刚由{source}重新构建了{entity}。",
        "新的{entity}候选包出自{source}。",
        "上一版{entity}被{source}废弃，另打了一包。",
    ),
    work=(
        "给{entity}做就绪检查，试跑{qty}小时。",
        "接下来是{entity}：试跑{qty}小时后看就绪情况。",
        "看看{entity}试跑{qty}小时后能不能发。",
    ),
    changes=(
        "把{entity}重新出包并回报。",
        "{entity}的候选包被打回，再要一版。",
        "触发一次{entity}的重新构建。",
    ),
    brief="{source}检查{entity}",
    change_brief="{entity}已重新出包",
    fillers=(
        "各平台单元测试全绿。",
        "不稳定用例重试过一次。",
        "许可证头齐全。",
        "更新日志里已经补上条目。",
        "文档构建没有警告。",
        "调试符号单独上传。",
        "依赖已在锁文件里固定。",
        "翻译还差几条。",
        "二进制可逐位复现。",
        "静态分析只提了风格意见。",
        "覆盖率变动不到一个点。",
        "弃用参数仍会打印提示。",
        "模糊测试没有发现新崩溃。",
        "升级路径已人工走过。",
        "遥测默认关闭。",
        "校验和随压缩包一起公布。",
        "回滚已经演练过。",
        "基准测试在正常波动之内。",
    ),
    user_fact=UserFact(
        "limit",
        "amount",
        "体积上限",
        says=("每个组件的体积上限是{v}KB。", "我们答应用户体积上限为{v}KB。", "所有组件都要守住{v}KB的体积上限。"),
        changes=("体积上限改为{v}KB。", "产品那边现在要{v}KB的体积上限。", "原来的体积上限作废，新值是{v}KB。"),
        asks=("组件现在守的体积上限是多少？", "生效的是哪个体积上限？", "把目前的体积上限念给我听。"),
    ),
    compare=Compare(
        "size",
        (
            "{entity}的包体积超没超体积上限，差多少？",
            "拿{entity}的包体积去比体积上限：超还是没超，差距多少？",
        ),
    ),
    rule=Rule(
        "冻结单",
        "code",
        says=("不管发什么，冻结单{v}都不许碰。", "老规矩：{v}是冻结单，别动。", "冻结单是{v}，任何构建都不带它。"),
        exceptions=(
            "{entity}的冻结单另定为{v}，等我通知再改。",
            "例外：{entity}以{v}为冻结单。",
            "构建{entity}时要避开的冻结单是{v}，不是平常那个。",
        ),
        withdrawals=("{entity}的冻结单例外我撤销了。", "{entity}自己的冻结单不再算数。"),
        reinstatements=("{entity}的冻结单例外重新有效。", "{entity}自己的冻结单又算数了。"),
        once=("就这一次构建，{entity}的冻结单用{v}，之后照旧。", "破例一回，把{entity}的冻结单换成{v}。"),
        asks=("构建{entity}不能碰哪个冻结单？", "{entity}现在适用的冻结单是哪一个？", "说出{entity}里我不许动的冻结单。"),
    ),
    totals=("到现在检查过的组件加在一起是多少KB？", "查过的所有组件，包体积总和是多少？"),
    across=("{entity}跟{other}谁的包体积更大，大多少？", "把{entity}和{other}摆一起：包体积哪个大，差多少？"),
)  # fmt: skip
