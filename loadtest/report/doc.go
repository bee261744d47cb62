// Package report draws what load tests have found, as a page of HTML, as SVG or as PNG. The page needs nothing else,
// not even a network.
//
// The page's charts are described with go-echarts and drawn in the browser by Apache ECharts 5.6.0. Its script lies
// compressed in the folder echarts, together with its licences, as the npm package echarts has it in
// dist/echarts.min.js. Pictures are drawn with gonum.org/v1/plot.
package report
