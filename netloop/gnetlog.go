package netloop

import "fmt"

// gnetLogger passes what gnet logs on. What gnet calls information is of interest to nobody but
// those who debug it.
type gnetLogger struct{ log logger }

func (g gnetLogger) Debugf(format string, args ...any) {
	g.log.Debug("gnet: " + fmt.Sprintf(format, args...))
}
func (g gnetLogger) Infof(format string, args ...any) {
	g.log.Debug("gnet: " + fmt.Sprintf(format, args...))
}
func (g gnetLogger) Warnf(format string, args ...any) {
	g.log.Warn("gnet: " + fmt.Sprintf(format, args...))
}
func (g gnetLogger) Errorf(format string, args ...any) {
	g.log.Error("gnet: " + fmt.Sprintf(format, args...))
}
func (g gnetLogger) Fatalf(format string, args ...any) {
	panic("gnet: " + fmt.Sprintf(format, args...))
}
