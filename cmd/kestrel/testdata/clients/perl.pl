#!/usr/bin/perl
# Cache::Memcached against a server: perl.pl PORT. A value comes back under the name of its queue, so
# options are asked for with get_multi.
use strict;
use warnings;
use Time::HiRes qw(time);
use Cache::Memcached;

my $address = "127.0.0.1:$ARGV[0]";
my $c = Cache::Memcached->new({ servers => [$address] });

sub want {
    my ($what, $got, $expected) = @_;
    $got = defined $got ? $got : "nothing";
    die "$what: got '$got', want '$expected'\n" if $got ne $expected;
    print "$what: ok\n";
}

# fetch gets from the queue pl with options.
sub fetch { return $c->get_multi("pl/$_[0]")->{pl} }

want("put", join(",", map { $c->set("pl", $_) } qw(one two)), "1,1");
want("get", $c->get("pl"), "one");
want("open", fetch("open"), "two");
want("abort", fetch("abort"), "nothing");
want("open", fetch("open"), "two");
want("close", fetch("close"), "nothing");
want("it is gone", $c->get("pl"), "nothing");
my $started = time;
want("timed get of nothing", fetch("t=300"), "nothing");
want("it waited", time - $started >= 0.3 ? "yes" : "no", "yes");
$c->set("pl", "three");
want("timed get", fetch("t=5000"), "three");
$c->set("pl", [1, "frozen"]);
want("what Perl has frozen", $c->get("pl")->[1], "frozen");
$c->set("pl", "four");
want("delete", $c->delete("pl"), "1");
want("get after delete", $c->get("pl"), "nothing");
my $stats = $c->stats("misc")->{hosts}{$address}{misc};
want("stats", $stats->{version}, "3.0.0");
$c->disconnect_all;
