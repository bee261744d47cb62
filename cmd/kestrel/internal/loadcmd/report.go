package loadcmd

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/report"
)

const loadReportPage = `Usage:
    kestrel load report RUN.json... -o FILE

Draws runs that --output of a scenario has kept. It draws percentile curves,
requests a second and latency over time, the depth of the queues, and the
server's memory. The ending of FILE chooses the format:

    .html   one page that needs no other file and no network, for any browser
    .svg    a picture for documents
    .png    the same, as pixels

Flags:
    -o, --output FILE (default report.html)

Example:
    $ kestrel load open-loop --spawn --rate 20000 --output run
    …
    $ kestrel load report run.json -o run.html
    wrote run.html
`

func newLoadReport() *cobra.Command {
	cmd := &cobra.Command{
		Use: "report FILE...", Short: "one page with charts, or a picture", Long: loadReportPage,
	}
	output := cmd.Flags().StringP("output", "o", "report.html", "file to write")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		draw, err := drawingOf(*output)
		if err != nil {
			return err
		}
		runs, err := readRuns(files, 1)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := draw(&b, runs); err != nil {
			return cli.Failed("load report: %s", err)
		}
		if err := figures.WriteFile(*output, func(w io.Writer) error { _, err := b.WriteTo(w); return err }); err != nil {
			return cli.Failed("load report: %s", err)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", *output)
		return nil
	}
	return cmd
}

// drawingOf returns what draws a file of that name.
func drawingOf(file string) (func(io.Writer, []*figures.Run) error, error) {
	switch ext := strings.ToLower(filepath.Ext(file)); ext {
	case ".html", ".htm":
		return report.Page, nil
	case ".svg", ".png":
		return func(w io.Writer, runs []*figures.Run) error {
			return report.Picture(w, runs, ext[1:])
		}, nil
	}
	return nil, fmt.Errorf("--output %q does not end in .html, .svg or .png", file)
}
