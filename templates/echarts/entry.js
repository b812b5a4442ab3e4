// The parts of ECharts that the report uses; build.sh makes echarts.min.js of them.
import * as echarts from 'echarts/core';
import {LineChart, BarChart, TreemapChart} from 'echarts/charts';
import {GridComponent, TooltipComponent, LegendComponent, DataZoomComponent, MarkLineComponent, MarkAreaComponent, AriaComponent} from 'echarts/components';
import {CanvasRenderer} from 'echarts/renderers';
echarts.use([LineChart, BarChart, TreemapChart, GridComponent, TooltipComponent, LegendComponent, DataZoomComponent,
  MarkLineComponent, MarkAreaComponent, AriaComponent, CanvasRenderer]);
export const init = echarts.init, version = echarts.version, getInstanceByDom = echarts.getInstanceByDom;
