package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// bill writes kestrel-VERSION.cdx.json: which modules the built program holds, as a CycloneDX bill of
// materials. What it lists is read from the program itself.
func (r *release) bill(program string) (err error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	info.Main.Version = "v" + r.version
	server := component(&info.Main, cyclonedx.ComponentTypeApplication)
	toolchain := cyclonedx.Component{
		BOMRef: "pkg:golang/std@" + info.GoVersion, Type: cyclonedx.ComponentTypeLibrary,
		Name: "std", Version: info.GoVersion, PackageURL: "pkg:golang/std@" + info.GoVersion,
	}
	components := []cyclonedx.Component{toolchain}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, component(m, cyclonedx.ComponentTypeLibrary))
	}
	needs := make([]string, 0, len(components))
	for _, c := range components {
		needs = append(needs, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.built.Format(time.RFC3339), Component: &server}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: server.BOMRef, Dependencies: &needs}}
	f, err := os.Create(filepath.Join(r.out, fmt.Sprintf("kestrel-%s.cdx.json", r.version)))
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	return cyclonedx.NewBOMEncoder(f, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// component returns the entry of a module.
func component(m *debug.Module, kind cyclonedx.ComponentType) cyclonedx.Component {
	url := "pkg:golang/" + m.Path + "@" + m.Version
	return cyclonedx.Component{
		BOMRef: url, Type: kind, Name: m.Path, Version: m.Version, PackageURL: url,
	}
}
