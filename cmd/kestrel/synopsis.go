package main

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageColumn is where a page explains a form of a command, behind the form.
var usageColumn = regexp.MustCompile(` {2,}.*`)

// flagLine is a flag in the list of a page, with what its value is called.
var flagLine = regexp.MustCompile(`--([a-z0-9][a-z0-9-]*)(?: ([^\s,(]+))?`)

// synopsis returns the forms of a command that its page begins with. The first has all flags that none of them names.
func synopsis(cmd *cobra.Command) []string {
	_, page, found := strings.Cut("\n"+cmd.Long, "\nUsage:\n")
	if !found {
		return []string{cmd.UseLine()}
	}
	usage, _, _ := strings.Cut(page, "\n\n")
	var forms []string
	for line := range strings.SplitSeq(usage, "\n") {
		forms = append(forms, usageColumn.ReplaceAllString(strings.TrimSpace(line), ""))
	}
	if cmd.HasSubCommands() {
		return forms // the flags are those of the commands in it
	}
	first := strings.TrimSuffix(forms[0], " [flags]")
	for _, f := range knownFlags(cmd) {
		if !regexp.MustCompile(`--` + f.Name + `\b`).MatchString(usage) {
			first += " [" + flagForm(cmd, f) + "]"
		}
	}
	forms[0] = first
	return forms
}

// knownFlags returns the flags of a command that its users are to know, without --help.
func knownFlags(cmd *cobra.Command) (flags []*pflag.Flag) {
	see := func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			flags = append(flags, f)
		}
	}
	cmd.NonInheritedFlags().VisitAll(see)
	cmd.InheritedFlags().VisitAll(see)
	return flags
}

// flagForm is a flag with its value, called as the page of the command calls it.
func flagForm(cmd *cobra.Command, f *pflag.Flag) string {
	form := "--" + f.Name
	if f.Shorthand != "" {
		form = "-" + f.Shorthand + "|" + form
	}
	if f.Value.Type() == "bool" {
		return form
	}
	for line := range strings.Lines(cmd.Long) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "-") {
			continue
		}
		for _, m := range flagLine.FindAllStringSubmatch(line, -1) {
			if m[1] == f.Name && m[2] != "" {
				return form + " " + m[2]
			}
		}
	}
	value, _ := pflag.UnquoteUsage(f)
	return form + " " + value
}

// useSynopsis has what is made from the tree call each command by its synopsis.
func useSynopsis(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		useSynopsis(child)
	}
	forms := synopsis(cmd)
	prefix := ""
	if cmd.HasParent() {
		prefix = cmd.Parent().CommandPath() + " "
	}
	cmd.DisableFlagsInUseLine = true
	// cobra's pages have it in bold: each form is a paragraph.
	cmd.Use = strings.TrimPrefix(strings.Join(forms, "**\n\n**"), prefix)
}
