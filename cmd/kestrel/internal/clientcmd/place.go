package clientcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

const (
	defaultServer  = "127.0.0.1:22133"
	defaultTimeout = 10 * time.Second

	serverVariable  = "KESTREL_SERVER"
	profileVariable = "KESTREL_PROFILE"
)

// place is where a command finds its servers, and how it prints.
type place struct {
	server, profile string
	timeout         time.Duration
	answered        bool // a server has
	output          string

	user, password string
	token          string // for admin ports
	tls            bool
	tlsFlag        *pflag.Flag
	files          cli.Credentials

	heard *hearing // what the client logs; set by options
}

// define adds the flags that all commands have.
func (p *place) define(f *pflag.FlagSet) {
	f.StringVar(&p.server, "server", "", "`ADDRESS` of the servers: host:port, several with commas between, or zk://host/path "+
		"(default $"+serverVariable+", the profile's, or "+defaultServer+")")
	f.StringVar(&p.profile, "profile", "", "`NAME` of the servers in the file of profiles (default $"+profileVariable+
		", or the file's default)")
	f.DurationVar(&p.timeout, "timeout", 0, "how long a server may take to answer (default the profile's, or 10s)")
	f.StringVar(&p.user, "user", "", "`NAME` of the user (default $"+cli.UserVariable+", or the profile's); the password is in $"+
		cli.PasswordVariable+", or the profile")
	f.BoolVar(&p.tls, "tls", false, "encrypt the connections (default the profile's)")
	p.tlsFlag = f.Lookup("tls")
	p.files.Define(f, "", "the servers' certificates", "the profile's, or ")
	f.StringVar(&p.output, "output", "text", "`FORM` of what is printed: text or json")
}

// resolve finds what the flags leave open: in the environment, then in the file of profiles.
func (p *place) resolve() error {
	if p.output != "text" && p.output != "json" {
		return fmt.Errorf("--output is text or json, and not %q", p.output)
	}
	if p.timeout < 0 {
		return fmt.Errorf("--timeout is a time above zero, and not %v", p.timeout)
	}
	named := p.profile != ""
	if !named {
		p.server = cmp.Or(p.server, os.Getenv(serverVariable))
		p.profile = os.Getenv(profileVariable)
	}
	file, err := profilesFile()
	if err != nil {
		return err
	}
	chosen, err := readProfile(file, p.profile)
	if err != nil {
		return err
	}
	p.server = cmp.Or(p.server, chosen.Server, defaultServer)
	p.timeout = cmp.Or(p.timeout, chosen.timeout, defaultTimeout)
	p.user = cmp.Or(p.user, os.Getenv(cli.UserVariable), chosen.User)
	p.password = cmp.Or(os.Getenv(cli.PasswordVariable), chosen.Password)
	p.token = cmp.Or(os.Getenv(cli.TokenVariable), chosen.Token)
	p.files = p.files.Or(cli.Credentials{CA: chosen.CA, Certificate: chosen.Certificate, Key: chosen.Key})
	if !p.tlsFlag.Changed {
		p.tls = chosen.TLS || p.files.Named()
	}
	return nil
}

// options are what the client of the place gets.
func (p *place) options(timeout time.Duration) (client.Options, error) {
	p.heard = cmp.Or(p.heard, new(hearing))
	o := client.Options{DialTimeout: timeout, ReplyTimeout: timeout, User: p.user, Password: p.password, Logger: slog.New(p.heard)}

	if !p.tls {
		return o, nil
	}
	var err error
	o.TLS, err = p.files.Config()
	return o, err
}

// hearing passes on what a client logs: servers that fail, and that come back. Without to nobody hears it.
type hearing struct {
	to atomic.Pointer[func(slog.Record)]
}

func (h *hearing) Enabled(context.Context, slog.Level) bool { return h.to.Load() != nil }
func (h *hearing) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *hearing) WithGroup(string) slog.Handler            { return h }

// Handle implements slog.Handler.
func (h *hearing) Handle(_ context.Context, r slog.Record) error {
	(*h.to.Load())(r)
	return nil
}

// login is how the place's user says who it is to an admin port.
func (p *place) login() (l cli.Login, err error) {
	l = cli.Login{User: p.user, Password: p.password, Token: p.token}
	if p.tls {
		l.TLS, err = p.files.Config()
	}
	return l, err
}

// profile is one entry of the file of profiles.
type profile struct {
	Server  string `toml:"server"`
	Timeout string `toml:"timeout"`
	timeout time.Duration

	User     string `toml:"user"`
	Password string `toml:"password"`
	Token    string `toml:"token"`
	TLS      bool   `toml:"tls"`
	CA       string `toml:"tls_ca"`

	Certificate string `toml:"tls_cert"`
	Key         string `toml:"tls_key"`
}

// profilesFile returns the name of the file of profiles.
func profilesFile() (string, error) {
	dir, err := os.UserConfigDir() // $XDG_CONFIG_HOME, or ~/.config
	if err != nil {
		return "", nil // nobody's home: no profiles
	}
	return filepath.Join(dir, "kestrel", "client.toml"), nil
}

// whyNotTOML words the error of a file of profiles. The parser repeats words that it does not understand, and a password
// or a token must not be on a terminal.
func whyNotTOML(err error) string {
	var at toml.ParseError
	if errors.As(err, &at) {
		switch key := at.LastKey[strings.LastIndexByte(at.LastKey, '.')+1:]; key {
		case "password", "token":
			return fmt.Sprintf("line %d: the value of %s is not TOML: write it in quotes", max(at.Position.Line, 1), key)
		}
	}
	return err.Error()
}

// readProfile returns a profile of a file, the file's default if name is "". Without a file, and
// without a name, it is empty.
func readProfile(file, name string) (profile, error) {
	var all struct {
		Default  string             `toml:"default"`
		Profiles map[string]profile `toml:"profiles"`
	}
	data, err := cli.ReadSmallFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && name == "", file == "" && name == "":
		return profile{}, nil
	case errors.Is(err, fs.ErrNotExist):
		return profile{}, &cli.Failure{Code: cli.ExitUsage, Text: fmt.Sprintf(
			"there is no profile %q: the file %s does not exist; it would have a table [profiles.%s] with a server", name, file, name)}
	case err != nil:
		return profile{}, cli.Failed("read the profiles: %v", err)
	}
	md, err := toml.Decode(string(data), &all)
	if err != nil {
		return profile{}, &cli.Failure{Code: cli.ExitUsage, Text: fmt.Sprintf("profiles in %s: %s", file, whyNotTOML(err))}
	}
	if unknown := md.Undecoded(); len(unknown) > 0 {
		return profile{}, &cli.Failure{Code: cli.ExitUsage, Text: fmt.Sprintf(
			"profiles in %s: the key %s is not known; a profile has server, timeout, user, password, token, "+
				"tls, tls_ca, tls_cert and tls_key", file, unknown[0])}
	}
	name = cmp.Or(name, all.Default)
	if name == "" {
		return profile{}, nil
	}
	p, ok := all.Profiles[name]
	if !ok {
		var names []string
		for known := range all.Profiles {
			names = append(names, known)
		}
		slices.Sort(names)
		return profile{}, &cli.Failure{Code: cli.ExitUsage, Text: fmt.Sprintf(
			"there is no profile %q in %s; it has %s", name, file, cli.OrNone(strings.Join(names, ", ")))}
	}
	if p.Timeout != "" {
		if p.timeout, err = time.ParseDuration(p.Timeout); err != nil || p.timeout <= 0 {
			return profile{}, &cli.Failure{Code: cli.ExitUsage, Text: fmt.Sprintf(
				"profile %q in %s: timeout is %q, and should be a time such as \"5s\"", name, file, p.Timeout)}
		}
	}
	return p, nil
}
