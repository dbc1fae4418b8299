export * as generateReportModule from "./generate-report.js";
export { GenerateReport } from "./generate-report.js";
