package backupcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/journalcmd"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/engine/backup"
	"github.com/kestrelmq/kestrel/segment"
)

const backupPage = `Usage:
    kestrel backup --output DIR|- [--admin HOST:PORT | --config FILE]
    kestrel backup --output DIR|- --stopped --data-dir DATA|--config FILE

Copies all queues as they are at one moment, while the server goes on. The
server must have an admin port (--admin-port 2223). It must run on this machine,
unless that port asks for a user. An item that was acknowledged before is in the
backup; one that was confirmed before is not; items that are open with readers
are.

DIR may have an earlier backup. Then only what is new is copied, and the earlier
backup stays whole until the new one is durable. If the command dies, run it
again: it goes on with what has come. With - a tar archive goes to standard
output; it is whole if it ends with a file MANIFEST.

Flags:
    --output DIR|-
        where the backup goes; made if it is missing
    --rate MEBIBYTES
        copy at most so many MiB a second; 0 sets no bound
    --full-speed
        copy as fast as the disk allows, even if clients wait for it. Without
        this flag the server slows the copy down while syncs of its journal take
        more than twice as long as before the copy
    --admin HOST:PORT (default $KESTREL_ADMIN, or 127.0.0.1:2223)
        admin port of the server
    --config FILE
        the server's configuration, which says where its admin port is
    --user NAME (default $KESTREL_USER)
        name of the user, if the admin port asks for one. The password is in
        $KESTREL_PASSWORD, or a token in $KESTREL_TOKEN. The user needs
        operate, get * and stats *
    --tls
        encrypt: the admin port has a certificate
    --tls-ca FILE
        authority that signed it (default: those that the system trusts)
    --tls-cert FILE, --tls-key FILE
        certificate that says who the user is, and its key, in place of a
        password or a token
    --stopped
        read the files of a server that does not run; none starts meanwhile
    --data-dir DATA
        its data directory

With - the archive can go to another machine at once:
    $ kestrel backup --output - | ssh safe 'cat > kestrel.tar'

Example:
    $ kestrel backup --output nightly
    nightly: … came now, in …
    $ kestrel backup --output - > kestrel.tar

Exit status: 0 if the backup is whole and durable; 1 if not; 2 if the flags or
the configuration are wrong.
`

const (
	// maxKeys is how many files the server leaves out at most: their keys fit into a request.
	maxKeys = 8000
	// patience bounds how long a server takes to begin, and between two pieces.
	patience = 5 * time.Minute
)

// maker is one `kestrel backup`.
type maker struct {
	output, admin, config, dataDir string
	user                           string
	files                          cli.Credentials
	tls                            bool
	stopped                        bool
	rate                           int64 // MiB a second; 0: any
	fullSpeed                      bool
	out, said                      io.Writer
	patience                       time.Duration
}

// NewBackup returns `kestrel backup`.
func NewBackup() *cobra.Command {
	m := &maker{patience: patience}
	cmd := &cobra.Command{
		Use: "backup", Short: "copy all queues while the server runs", Long: backupPage, Args: cli.NoArguments,
	}
	f := cmd.Flags()
	f.StringVar(&m.output, "output", "", "where the backup goes; - is standard output")
	f.StringVar(&m.admin, "admin", "", "admin port of the server, HOST:PORT")
	f.StringVar(&m.user, "user", os.Getenv(cli.UserVariable), "name of the user that the admin port knows")
	f.BoolVar(&m.tls, "tls", false, "encrypt the connection")
	m.files.Define(f, "", "the server's certificate", "")
	f.StringVar(&m.config, "config", "", "configuration file of the server")
	f.StringVar(&m.dataDir, "data-dir", "", "data directory of a server that does not run")
	f.Int64Var(&m.rate, "rate", 0, "MiB a second at most")
	f.BoolVar(&m.fullSpeed, "full-speed", false, "copy as fast as the disk allows, even if clients wait for it")
	f.BoolVar(&m.stopped, "stopped", false, "read the files of a server that does not run")
	server := f.String("server", "", "") // as other commands have it
	f.Lookup("server").Hidden = true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *server != "" {
			return errors.New("a backup comes over the admin port, and --server is a port of clients: use --admin HOST:PORT")
		}
		m.out, m.said = cmd.OutOrStdout(), cmd.ErrOrStderr()
		ctx := context.Background()
		if !m.stopped && m.output != "-" { // what reads or writes the disk alone ends as any process does
			var stop func()
			ctx, stop = signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
			defer context.AfterFunc(ctx, stop)() // a second signal ends the process
			defer stop()
		}
		return m.run(ctx)
	}
	return cmd
}

func (m *maker) run(ctx context.Context) error {
	switch {
	case m.output == "":
		return errors.New("where to? Say --output DIR, or --output - for standard output")
	case m.rate < 0:
		return errors.New("--rate is a number of MiB a second, or 0")
	case m.fullSpeed && m.rate > 0:
		return errors.New("--full-speed and --rate contradict each other: choose one")
	case m.stopped && m.admin != "":
		return errors.New("--stopped is for a server that does not run, and --admin for one that does")
	case !m.stopped && m.dataDir != "":
		return errors.New("--data-dir is for a server that does not run: say --stopped; one that runs has --admin")
	case m.stopped && m.dataDir == "" && m.config == "":
		return errors.New("which data directory? Say --data-dir DATA, or --config FILE")
	}
	c, err := m.load()
	if err != nil {
		return err
	}
	if m.stopped {
		return m.fromFiles(c)
	}
	return m.fromServer(ctx, c)
}

// load returns the configuration, nil if nothing says where it is.
func (m *maker) load() (*config.Config, error) {
	s := config.Source{File: m.config}
	if m.dataDir != "" {
		s.Overrides = []config.Override{{Key: "data_dir", Flag: "data-dir", Value: m.dataDir}}
	}
	if m.config == "" && m.dataDir == "" {
		return nil, nil
	}
	return s.Load()
}

// fromServer has a running server send a backup.
func (m *maker) fromServer(ctx context.Context, c *config.Config) error {
	if m.admin == "" && c != nil {
		if m.admin = c.AdminTCP(); m.admin == "" {
			return cli.Failed("%s has neither admin_port nor a [[listener]] of protocol admin that is TCP: set one, and restart"+
				" the server", m.config)
		}
	}
	if m.admin == "" {
		m.admin = cmp.Or(os.Getenv(cli.AdminVariable), cli.DefaultAdmin)
	}
	var keys []byte
	if m.output != "-" {
		held, err := backup.Held(segment.OS{}, m.output)
		if err != nil {
			return cli.Failed("nothing was backed up: %v", err)
		}
		for key := range held {
			if len(keys) < 8*maxKeys {
				keys = binary.LittleEndian.AppendUint64(keys, key)
			}
		}
	}
	if _, _, err := net.SplitHostPort(m.admin); err != nil {
		return fmt.Errorf("--admin: %q is not HOST:PORT", m.admin)
	}
	url := "http://" + m.admin + "/backup"
	if m.fullSpeed {
		url += "?pace=full"
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalls := time.AfterFunc(m.patience, func() {
		cancel(fmt.Errorf("the server has sent nothing for %v", m.patience))
	})
	defer stalls.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(keys))
	if err != nil {
		return fmt.Errorf("--admin: %q is not HOST:PORT", m.admin)
	}
	login := cli.Login{User: m.user, Password: os.Getenv(cli.PasswordVariable), Token: os.Getenv(cli.TokenVariable)}
	if m.tls || m.files.Named() {
		if login.TLS, err = m.files.Config(); err != nil {
			return err
		}
	}
	login.Sign(request)
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig: login.TLS, ReadBufferSize: 256 << 10, DisableCompression: true,
	}}
	answer, err := client.Do(request)
	if err != nil && ctx.Err() != nil {
		return cli.Failed("nothing was backed up by way of the admin port %s: %v", m.admin, context.Cause(ctx))
	}
	if err != nil {
		advice := cmp.Or(cli.TLSAdvice(err), "the server needs --admin-port, and this command --admin HOST:PORT")
		return cli.Failed("nothing was backed up: the admin port %s cannot be asked: %v; %s", m.admin, cli.Reason(err), advice)
	}
	defer client.CloseIdleConnections()
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
		text := strings.TrimSpace(string(why))
		text += cli.StatusAdvice(answer.StatusCode, text)
		return cli.Failed("nothing was backed up: the admin port %s answers %d: %s", m.admin, answer.StatusCode, text)
	}
	return m.store(&patientReader{answer.Body, ctx, stalls, m.patience})
}

// patientReader reads what a server sends. It ends with the context, which stalls ends unless each piece comes in time.
type patientReader struct {
	io.Reader
	ctx      context.Context
	stalls   *time.Timer
	patience time.Duration
}

// Read implements io.Reader.
func (r *patientReader) Read(into []byte) (int, error) {
	r.stalls.Reset(r.patience)
	defer r.stalls.Stop()
	n, err := r.Reader.Read(into)
	if err != nil && r.ctx.Err() != nil {
		err = context.Cause(r.ctx)
	}
	return n, err
}

// fromFiles backs up the data directory of a server that does not run.
func (m *maker) fromFiles(c *config.Config) error {
	c.Engine.Progress = new(engine.Progress)
	end := cli.Watch(m.said, "read", cli.Bytes, c.Engine.Progress.Bytes)
	s, err := engine.Inspect(c.Engine)
	end()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cli.Failed("nothing was backed up: there is no journal in %s", c.Engine.Dir)
	case err != nil:
		return config.Explain(err, c)
	}
	defer s.Close()
	if err := journalcmd.CheckImported(c.Engine.Dir); err != nil {
		return err // a part of the queues would look like all of them
	}
	var withheld []string
	for _, q := range s.Withheld {
		withheld = append(withheld, q.Name)
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(backup.StreamStopped(w, segment.OS{}, c.Engine.Dir, withheld)) }()
	defer r.Close()
	return m.store(r)
}

// store writes what comes to the output.
func (m *maker) store(stream io.Reader) error {
	began := time.Now()
	if m.rate > 0 {
		stream = &pacedReader{r: stream, rate: m.rate << 20}
	}
	if m.output == "-" {
		if _, err := io.CopyBuffer(struct{ io.Writer }{m.out}, struct{ io.Reader }{stream}, make([]byte, 256<<10)); err != nil {
			return cli.Failed("the backup is not complete: %v", err)
		}
		return nil
	}
	p := cli.TerminalProgress(m.said, "copied", cli.Bytes, 0)
	r, err := backup.Store(segment.OS{}, m.output, p.Reader(stream))
	p.End()
	if errors.Is(err, engine.ErrLocked) {
		return cli.Failed("nothing was backed up: %s is in use by %s: choose another --output, or wait", m.output,
			cli.Holder(m.output))
	}
	if err != nil {
		return cli.Failed("the backup is not complete, and an earlier one in %s is as it was: %v. Run the command again: it keeps"+
			" what has come", m.output, err)
	}
	took := time.Since(began)
	fmt.Fprintf(m.out, "%s: %s, %s; of them %s, %s came now, in %s%s\n", cli.OneLine(m.output),
		cli.Counted(r.Files, "file"), cli.Counted(r.Bytes, "byte"), cli.Counted(r.Sent, "file"),
		cli.Counted(r.Came, "byte"), cli.Age(took), speed(r.Came, took))
	if r.Stays != nil {
		fmt.Fprintf(m.said, "the backup is whole; files of an earlier one are still there, and the next backup removes them: %v\n", r.Stays)
	}
	for _, name := range r.Withheld {
		fmt.Fprintf(m.said, "queue %q is withheld: the backup has its damaged files as they are\n", name)
	}
	return nil
}

// speed says how fast so many bytes came; nothing of a few, which say more of the start than of the speed.
func speed(came int64, took time.Duration) string {
	if came < 10e6 {
		return ""
	}
	return fmt.Sprintf(" (%.0f MB/s)", float64(came)/1e6/max(took.Seconds(), 1e-3))
}

// open returns the archive at a path; - is standard input.
func open(from string, in io.Reader) (stream io.Reader, closeIt func() error, err error) {
	if from == "-" {
		return in, func() error { return nil }, nil
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, nil, err
	}
	return f, f.Close, nil
}
