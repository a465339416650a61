// Command registry runs a real OCI registry on loopback for tests: distribution, which
// keeps all in memory, behind a door that counts requests and can refuse them.
//
// It prints one JSON line on stdout once it serves, and runs until SIGTERM, SIGINT or
// the end of its standard input.
//
// Reading order: main.go (life of one registry), storage.go (distribution and who may
// use it), tokens.go (the token server), door.go (counting and refusing), certs.go.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

type options struct {
	listen       string // address of the registry
	user         string // "" means that everybody may do everything
	password     string
	tokenSeconds int // life of a token; 0 means no token server but basic authentication
	tls          bool
	notify       string // URL that is told of pushes and pulls; "" means none
}

func main() {
	opts, err := parseFlags(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(opts)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "registry: error: %v\n", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("registry", flag.ContinueOnError)
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` of the registry")
	f.StringVar(&o.user, "user", "", "`name` of the only user (default: everybody may do everything)")
	f.StringVar(&o.password, "password", "", "their password")
	f.IntVar(&o.tokenSeconds, "token-seconds", 0, "ask for tokens of a token server, which last so many `seconds` (default: basic authentication)")
	f.BoolVar(&o.tls, "tls", false, "serve TLS, with a certificate of an authority of its own")
	f.StringVar(&o.notify, "notify", "", "tell this `URL` of each push and pull (default: none)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.user == "" && (o.password != "" || o.tokenSeconds != 0):
		return o, errors.New("-password and -token-seconds need a -user")
	case o.tokenSeconds < 0:
		return o, errors.New("-token-seconds is negative")
	}
	return o, nil
}

// announcement is the one line on stdout.
type announcement struct {
	Address     string `json:"address"`
	CA          string `json:"ca"`           // certificate of the authority in PEM form; "" without TLS
	TokenServer string `json:"token_server"` // URL; "" without one
	Admin       string `json:"admin"`        // address where requests are told and refused; never TLS
}

// run is the life of one registry.
func run(opts options) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()

	dir, err := os.MkdirTemp("", "devcluster-registry-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	said, err := serve(ctx, opts, dir)
	if err != nil {
		return err
	}
	line, err := json.Marshal(said)
	if err != nil {
		return err
	}
	fmt.Println(string(line))
	<-ctx.Done()
	return nil
}

// serve starts all servers. They end with the process.
func serve(ctx context.Context, opts options, dir string) (said announcement, err error) {
	var secure *tls.Config
	scheme := "http"
	if opts.tls {
		scheme = "https"
		if secure, said.CA, err = newCertificate(); err != nil {
			return said, err
		}
	}

	door := &door{}
	var tokens *tokenServer
	if opts.tokenSeconds > 0 {
		// Before the registry, which tells clients where it is.
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return said, err
		}
		said.TokenServer = scheme + "://" + listener.Addr().String() + tokenPath
		if tokens, err = newTokenServer(opts, filepath.Join(dir, "keys.json")); err != nil {
			return said, err
		}
		start(listener, secure, door.counted(tokens))
	}

	storage, err := newStorage(ctx, opts, dir, said.TokenServer)
	if err != nil {
		return said, err
	}
	listener, err := net.Listen("tcp", opts.listen)
	if err != nil {
		return said, err
	}
	said.Address = listener.Addr().String()
	start(listener, secure, door.guarded(storage))

	if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return said, err
	}
	said.Admin = listener.Addr().String()
	start(listener, nil, admin(door, tokens))
	return said, nil
}

func start(listener net.Listener, secure *tls.Config, handler http.Handler) {
	server := &http.Server{
		Handler:   handler,
		TLSConfig: secure,
		// A client that does not trust the certificate is what a test wants.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	if secure == nil {
		go server.Serve(listener)
	} else {
		go server.ServeTLS(listener, "", "")
	}
}
